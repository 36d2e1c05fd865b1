"""Code that runs in the sandbox's interpreter: zygotes, slots and programs.

A *zygote* has packages imported. A *slot* is a fork of it, in a control group or under a user id of
its own, that serves one run after another: it builds the sandbox, watches the clock, kills every
process and reports. The *program* is the user's process, a fork of the slot; nothing else ever
touches what a user sent.

Modules here import the standard library and this package only: a zygote keeps what it imports in
memory, and every page that a fork touches is copied.
"""
