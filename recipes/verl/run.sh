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
BENCHMARKS=${BENCHMARKS:-aime24 aime25 math500 minerva}
CONFIG=${CONFIG:-metis_math}

[[ $HOURS =~ ^[0-9]*\.?[0-9]+$ ]] || { echo "HOURS=$HOURS: use a number, such as 0.5" >&2; exit 2; }
LIMIT=$(awk -v hours="$HOURS" 'BEGIN { printf "%d", 3600 * hours }')
((LIMIT > 0)) || { echo "HOURS=$HOURS: use more than that" >&2; exit 2; }

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export VERL_USE_EXTERNAL_MODULES=${VERL_USE_EXTERNAL_MODULES:+$VERL_USE_EXTERNAL_MODULES,}metis.engines.verl.trainer

# cuDNN's attention would plan anew for every length of a packed pass.
export TORCH_CUDNN_SDPA_DEPRIORITIZED=${TORCH_CUDNN_SDPA_DEPRIORITIZED:-1}
# Kernels that rollouts drawn from all tokens do not use would be compiled first.
export VLLM_USE_FLASHINFER_SAMPLER=${VLLM_USE_FLASHINFER_SAMPLER:-0}

quoted() { printf "'%s'" "${1//\'/\\\'}"; }

# The benchmarks of the main table, each with the same weight in metis/eval/accuracy.
TESTS=()
for name in $BENCHMARKS; do TESTS+=("$(quoted "$DATA/$name.parquet")"); done

FILES=(
    # What `metis prepare` writes.
    data.train_files="$(quoted "$DATA/$PROBLEMS.parquet")"
    data.val_files="[$(IFS=,; echo "${TESTS[*]}")]"
)

MODEL=(
    actor_rollout_ref.model.path="$(quoted "$MODEL_PATH")"
)
# verl takes flash-attn for granted; where it is missing, PyTorch's own attention does.
python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("flash_attn") is None)' ||
    MODEL+=(+actor_rollout_ref.model.override_config.attn_implementation=sdpa)

TRAINER=(
    trainer.nnodes="$NNODES"
    trainer.n_gpus_per_node="$GPUS"
    # verl deals them over the nodes.
    reward.num_workers="$((8 * NNODES))"
    trainer.default_local_dir="$(quoted "$OUT/verl")"
    trainer.experiment_name="$NAME-$CURRICULUM"
    trainer.v1.metis.run="$(quoted "$OUT")"
    trainer.v1.metis.seconds="$LIMIT"
    trainer.v1.metis.curriculum.name="$CURRICULUM"
    trainer.v1.metis.curriculum.preset="$PRESET"
)

# Workers of a cluster that is already running need the variables as well. Arguments are printed and
# logged: no key is among them.
RAY=()
for variable in VERL_USE_EXTERNAL_MODULES TORCH_CUDNN_SDPA_DEPRIORITIZED VLLM_USE_FLASHINFER_SAMPLER ${!METIS_@} ${!WANDB_@}; do
    [[ $variable != WANDB_API_KEY ]] || continue
    RAY+=(+ray_kwargs.ray_init.runtime_env.env_vars.$variable="$(quoted "${!variable}")")
done

python3 -m verl.trainer.main_ppo \
    --config-path "$HERE/config" --config-name "$CONFIG" \
    "${FILES[@]}" "${MODEL[@]}" "${TRAINER[@]}" "${RAY[@]}" "$@"
