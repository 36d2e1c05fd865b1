"""One arithmetic for the engine that samples and the learner that trains, on CPUs in float32."""
