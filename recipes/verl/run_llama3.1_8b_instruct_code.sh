#!/usr/bin/env bash
# Llama-3.1-8B-Instruct on CodeContests+, 40 hours: the second block of the paper's main table, code.
export MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct} HOURS=${HOURS:-40} NAME=llama3.1_8b_instruct_code
export CONFIG=metis_code DATA=${DATA:-data/code} PROBLEMS=${PROBLEMS:-codecontests}
export BENCHMARKS=${BENCHMARKS:-livecodebench humaneval mbpp bigcodebench}

exec "$(dirname "$0")/run.sh" "$@"
