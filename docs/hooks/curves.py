"""Lets pages show the learning curves where the benchmark wrote them, as results/<environment>.png, and in
folders as there.
"""

from pathlib import Path

from mkdocs.structure.files import File


def on_files(files, config):
    """Add the pictures of benchmark/results to the site's files."""
    benchmark = Path(config.config_file_path).with_name("benchmark")
    for picture in sorted(benchmark.glob("results/**/*.png")):
        files.append(File.generated(config, picture.relative_to(benchmark).as_posix(), abs_src_path=str(picture)))
    return files
