#!/usr/bin/env bash
# Runs verl with a METIS curriculum: what all run_*.sh have in common. Further arguments are verl's.
set -xeuo pipefail

MODEL_PATH=${MODEL_PATH:?"use one of the run_*.sh, or name a model"}
HOURS=${HOURS:?"use one of the run_*.sh, or say how long to train"}
NAME=${NAME:-$(basename "$0" .sh)}
CURRICULUM=${CURRICULUM:-metis}
PRESET=${PRESET-paper}
NNODES=${NNODES:-1}
GPUS=${GPUS:-8}
# Workers of a cluster that is already running are in another folder: paths are whole.
OUT=$(realpath -m "${OUT:-runs/$NAME-$CURRICULUM}")
DATA=$(realpath -m "${DATA:-data/paper}")
PROBLEMS=${PROBLEMS:-dapo}
CONFIG=${CONFIG:-metis_math}

LIMIT=$(awk -v hours="$HOURS" 'BEGIN { printf "%d", 3600 * hours }')

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export VERL_USE_EXTERNAL_MODULES=metis.engines.verl.trainer

FILES=(
    # What `metis prepare math preset=paper --out data/paper` writes.
    data.train_files="'$DATA/$PROBLEMS.parquet'"
    # The four benchmarks of the main table, each with the same weight in metis/eval/accuracy.
    data.val_files="['$DATA/aime24.parquet','$DATA/aime25.parquet','$DATA/math500.parquet','$DATA/minerva.parquet']"
)

MODEL=(
    actor_rollout_ref.model.path="$MODEL_PATH"
)

TRAINER=(
    trainer.nnodes="$NNODES"
    trainer.n_gpus_per_node="$GPUS"
    trainer.default_local_dir="'$OUT/verl'"
    trainer.experiment_name="$NAME-$CURRICULUM"
    trainer.v1.metis.run="'$OUT'"
    trainer.v1.metis.seconds="$LIMIT"
    trainer.v1.metis.curriculum.name="$CURRICULUM"
    trainer.v1.metis.curriculum.preset="$PRESET"
)

RAY=(
    # Workers of a cluster that is already running need the variable as well.
    +ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES="$VERL_USE_EXTERNAL_MODULES"
)

python3 -m verl.trainer.main_ppo \
    --config-path "$HERE/config" --config-name "$CONFIG" \
    "${FILES[@]}" "${MODEL[@]}" "${TRAINER[@]}" "${RAY[@]}" "$@"
