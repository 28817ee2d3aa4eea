"""What Sexton costs, beside what people would use instead: `python -m bench`.

Everything is compared within one run, in turns (ours, theirs, ours, …), since absolute times mean little on a
shared machine. The parts are those of the product: nothing in it exists for these measurements.
"""
