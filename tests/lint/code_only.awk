# C files without comments, string and character literals, as "file:line:code", one line a line.
# So that a check for a function's name does not trip on a word in a text. Portable awk.
# -v keep_strings=1 leaves string literals (an include's "path") where they are.

function strip(s,    out, i, c, two) {
    out = ""
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        two = substr(s, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                out = out " "
                i++
            }
        } else if (quote != "") {
            if (keep_strings) {
                out = out c
            }
            if (c == "\\") {
                i++
                if (keep_strings) {
                    out = out substr(s, i, 1)
                }
            } else if (c == quote) {
                quote = ""
                if (!keep_strings) {
                    out = out c
                }
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            break
        } else {
            if (c == "\"" || c == "'") {
                quote = c
            }
            out = out c
        }
    }
    # A literal ends with its line, unless a backslash continues it.
    if (substr(s, length(s), 1) != "\\") {
        quote = ""
    }
    return out
}

FNR == 1 {
    in_comment = 0
    quote = ""
}
{
    print FILENAME ":" FNR ":" strip($0)
}
