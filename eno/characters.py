"""Characters that would act on a terminal or a log instead of being read, made visible.

Whatever is shown to a person comes from clusters, where almost everybody may write a message: it must not move the
cursor, erase what was said before, or begin a line that looks like ours.
"""

from __future__ import annotations


def visible(text: str) -> str:
    r"""The text with whatever cannot be read in it as an escape: `\x1b`, `\n`, `\u202e`.

    That is what `str.isprintable` excludes. Controls (Cc), formats such as bidi overrides (Cf), and line and paragraph
    separators (Zl, Zp) act. A lone surrogate (Cs) cannot be encoded. What a private or unassigned one (Co, Cn) does
    depends on the terminal. A blank other than the ASCII one (Zs) looks like that and is not found by it. A backslash
    stays as it is, so this cannot be undone: what has to be exact is JSON.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
