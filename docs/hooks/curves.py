"""Lets pages show the learning curves where the benchmark wrote them, as results/<environment>.png."""

from pathlib import Path

from mkdocs.structure.files import File


def on_files(files, config):
    """Add the pictures of benchmark/results to the site's files."""
    for picture in sorted(Path(config.config_file_path).with_name("benchmark").glob("results/*.png")):
        files.append(File.generated(config, f"results/{picture.name}", abs_src_path=str(picture)))
    return files
