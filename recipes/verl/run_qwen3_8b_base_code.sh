#!/usr/bin/env bash
# Qwen3-8B-Base on CodeContests+, 40 hours: the first block of the paper's main table, code.
export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-8B-Base} HOURS=${HOURS:-40} NAME=qwen3_8b_base_code
export CONFIG=metis_code DATA=${DATA:-data/code} PROBLEMS=${PROBLEMS:-codecontests}
export BENCHMARKS=${BENCHMARKS:-livecodebench humaneval mbpp bigcodebench}

exec "$(dirname "$0")/run.sh" "$@"
