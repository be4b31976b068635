# What srun.sbatch and torchrun.sbatch share; they source it. It names the run, finds the address of a node, and runs a
# step after which the job is requeued where its time was over before the run was.

fail() {
    echo "$(basename "${BASH_SOURCE[-1]}"): $1" >&2
    exit 2
}

# Address of a node as SLURM itself reaches it: the node's name need not resolve. Ranks of one node meet within it.
node_address() {
    if ((SLURM_JOB_NUM_NODES == 1)); then
        echo 127.0.0.1
    else
        scontrol show node "$1" --oneliner | grep -oP '(?<= NodeAddr=)\S+'
    fi
}
export -f node_address # torchrun.sbatch calls it on every node

[ -n "${SLURM_JOB_ID:-}" ] || fail "this is no SLURM job: submit it with sbatch"
[ -f "${1:-}" ] || fail "'${1:-}' is no file: give an algorithm and its flags, from the root of the repository"
for word in "$@"; do
    case $word in
    --resume* | --run[-_]name* | --runs[-_]dir*)
        fail "$word: a requeued job continues its own run, so these flags are set here, from RUN_NAME and RUNS_DIR"
        ;;
    esac
done

# One job of an array is called <array's number>_<its number in it>: the last one has the array's own SLURM_JOB_ID, with
# which all of them would be requeued.
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
# Name of the run: the job keeps its number when it is requeued.
run_name=${RUN_NAME:-slurm-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}
runs_dir=${RUNS_DIR:-runs}
run_flags=(--resume auto --runs-dir "$runs_dir" --run-name "$run_name")
result=$runs_dir/$run_name/result.json # the run says here how it ended

MASTER_ADDR=${MASTER_ADDR:-$(node_address "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)")}
[ -n "$MASTER_ADDR" ] || fail "SLURM names no address of the first of $SLURM_JOB_NODELIST: set MASTER_ADDR"
MASTER_PORT=${MASTER_PORT:-$((15000 + SLURM_JOB_ID % 20000))}
export MASTER_ADDR MASTER_PORT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # ranks share the cores of a node
# since SLURM 22.05 a step does not take this from its job by itself
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK

step='' signals=''
pass_on() {
    signals+=" $1"
    echo "job $job: $1 at $(date '+%F %T'), passed on to the ranks"
    [ -z "$step" ] || kill -s "$1" "$step"
}

# Run a command, srun with all that follows it, and end with its exit code; pass signals on to the ranks meanwhile.
# SLURM sends USR1 before the time limit: where the run was interrupted by it, it waits in the queue for its next turn.
# TERM means that the job is cancelled, or preempted, which SLURM itself requeues.
run_step() {
    local before code seen
    before=$(cat "$result" 2>/dev/null)
    trap 'pass_on USR1' USR1
    trap 'pass_on TERM' TERM
    echo "job $job, start ${SLURM_RESTART_COUNT:-0}, on $SLURM_JOB_NODELIST: run $run_name"
    "$@" &
    step=$!
    while true; do # a signal ends `wait`, but not the step
        seen=$signals
        wait "$step"
        code=$?
        [ "$signals" != "$seen" ] || break
    done
    trap - USR1 TERM

    case $signals in
    *TERM* | '') exit "$code" ;;
    esac
    # a result as before means that this start came to nothing, and so would the next one
    if [ "$(cat "$result" 2>/dev/null)" != "$before" ] && grep -q '"status": "interrupted"' "$result"; then
        echo "job $job: $run_name is saved, and goes on when it is its turn again"
        scontrol requeue "$job" || fail "job $job is not requeued; RUN_NAME=$run_name continues the run"
        exit 0
    fi
    exit "$code"
}
