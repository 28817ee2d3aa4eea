"""`sexton doctor`: what Sexton needs around it, looked at piece by piece, each with the line that mends it.

Nothing here depends on anything else working: a part that cannot be reached fails its own checks and no others.
"""
