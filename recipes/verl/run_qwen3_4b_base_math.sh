#!/usr/bin/env bash
# Qwen3-4B-Base on DAPO-Math-17k, 20 hours: the second block of the paper's main table.
export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-4B-Base} HOURS=${HOURS:-20} NAME=qwen3_4b_base_math

exec "$(dirname "$0")/run.sh" "$@"
