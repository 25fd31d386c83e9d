#!/usr/bin/env bash
# DeepSeek-R1-Distill-Llama-8B on CodeContests+, 40 hours: the third block of the paper's main table, code.
export MODEL_PATH=${MODEL_PATH:-deepseek-ai/DeepSeek-R1-Distill-Llama-8B} HOURS=${HOURS:-40} NAME=deepseek_r1_distill_llama_8b_code
export CONFIG=metis_code DATA=${DATA:-data/code} PROBLEMS=${PROBLEMS:-codecontests}
export BENCHMARKS=${BENCHMARKS:-livecodebench humaneval mbpp bigcodebench}

exec "$(dirname "$0")/run.sh" "$@"
