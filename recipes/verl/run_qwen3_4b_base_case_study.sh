#!/usr/bin/env bash
# Qwen3-4B-Base on the training half of MATH: the pool of the paper's case study (Fig. 4). The paper
# does not name the model; the one of its ablations is taken.
export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-4B-Base} HOURS=${HOURS:-20} NAME=qwen3_4b_base_case_study
export PROBLEMS=math

exec "$(dirname "$0")/run.sh" "$@"
