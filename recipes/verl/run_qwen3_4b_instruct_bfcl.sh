#!/usr/bin/env bash
# Qwen3-4B-Instruct on the multi-turn part of BFCL v3, 20 hours: the paper's function-calling table.
export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-4B-Instruct-2507} HOURS=${HOURS:-20}
export NAME=qwen3_4b_instruct_bfcl CONFIG=metis_bfcl
# What `metis prepare bfcl preset=paper --out data/paper/bfcl` writes.
export DATA=${DATA:-data/paper/bfcl} PROBLEMS=train BENCHMARKS=heldout

exec "$(dirname "$0")/run.sh" "$@"
