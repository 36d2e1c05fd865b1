"""The steps of a loop: proposal, coding, running, feedback, and the measurements they rest on."""
