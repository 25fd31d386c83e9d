"""The contract between curricula and engines: values, requests, the pool, saved state, `drive`."""

from metis.core.requests import LAST, Complete, Curriculum, Embed, Engine, Evidence, Fit, Plan, Predict, Request, Rollout, Score, complete, embed, fit, predict, rollout, score
from metis.core.values import Batch, Chat, Completion, Continuation, Decision, Exemplar, Group, Judgment, Message, Progress, Prompt, Sampling, Trajectory

__all__ = [
    "LAST",
    "Batch",
    "Chat",
    "Complete",
    "Completion",
    "Continuation",
    "Curriculum",
    "Decision",
    "Embed",
    "Engine",
    "Evidence",
    "Exemplar",
    "Fit",
    "Group",
    "Judgment",
    "Message",
    "Plan",
    "Predict",
    "Progress",
    "Prompt",
    "Request",
    "Rollout",
    "Sampling",
    "Score",
    "Trajectory",
    "complete",
    "embed",
    "fit",
    "predict",
    "rollout",
    "score",
]
