"""Every parser and codec against whatever hypothesis makes up: a value, or one of Sexton's own errors."""
