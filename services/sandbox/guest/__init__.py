"""What runs in the sandbox's interpreter: zygotes, slots, guards and programs.

A *zygote* has a set of packages imported. A *slot* is a fork of it that lives in a control group
or under a user id of its own and starts one run after another. A *guard* is the first process
of a run: it makes the private places, watches the clock, ends every process and reports. The
*program* is the user's process. Only the program ever meets what a user sent as code.

Nothing here imports more than the standard library: a zygote holds what it imports, and every
page that a fork touches is copied.
"""
