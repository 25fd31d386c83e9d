#!/usr/bin/env bash
# Llama-3.1-8B-Instruct on DAPO-Math-17k, 40 hours: the third block of the paper's main table.
export MODEL_PATH=${MODEL_PATH:-meta-llama/Llama-3.1-8B-Instruct} HOURS=${HOURS:-40}
export NAME=llama3.1_8b_instruct_math

exec "$(dirname "$0")/run.sh" "$@"
