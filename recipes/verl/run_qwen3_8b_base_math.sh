#!/usr/bin/env bash
# Qwen3-8B-Base on DAPO-Math-17k, 40 hours: the first block of the paper's main table.
export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-8B-Base} HOURS=${HOURS:-40} NAME=qwen3_8b_base_math

exec "$(dirname "$0")/run.sh" "$@"
