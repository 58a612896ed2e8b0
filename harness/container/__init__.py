"""The container: build the image, and run a verb in it with the least rights that the verb needs.

Docker's SDK takes a third of the start of a command, so only a verb that needs it imports these modules.
"""
