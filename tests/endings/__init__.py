"""The test matrix of endings.

Every public block (`blocks`), in every phase of its life (`Phase`), with every kind of peer (`peers`), meets
every impatience (`impatience` within the event loop, `programs` from outside) on every event loop (`loops`).
Each cell must end within its bound, raise what the user expects, and leave no task, socket or message in
flight.
"""
