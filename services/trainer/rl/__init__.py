"""Online training: reinforcement learning (GRPO and relatives, PPO) and distillation.

The coordinator (core environment) draws prompts, rolls them out on a vLLM engine, scores them and
builds batches; the learner (training runtime) holds the weights and updates them; after every
update the new weights are synced to the engine.
"""
