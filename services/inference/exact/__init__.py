"""One arithmetic for the engine that samples and the learner that trains, on CPUs in float32."""

ENVIRONMENT = {"MKL_CBWR": "AUTO,STRICT"}
"""Variables that both processes start with. By default MKL splits the sums of a matrix product
among its threads where the number of rows suggests it, and rounds them otherwise than those of
another number of rows or threads; it does not in this mode, which takes the same time."""
