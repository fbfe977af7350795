//! Prose for people: lines that fit the screen, and numbers with their nouns.

use isochron_core::internal::output::open_stdout;
use isochron_hierarchy::printable::show_text;

/// Returns the width of text on standard output: that of its terminal, up to 120 characters, or else 80.
pub fn output_width() -> usize {
    match open_stdout().map(rustix::termios::tcgetwinsize) {
        Ok(Ok(size)) if size.ws_col > 0 => usize::from(size.ws_col).clamp(40, 120),
        _ => 80,
    }
}

/// Breaks the lines of a text at spaces, so that each has at most `width` characters if its words allow it. The rest of a
/// broken line is indented. Hidden characters are [escaped](show_text). A no-break space is written as a space that is never broken at.
pub fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let mut used = 0;
        for word in line.split(' ') {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > width {
                wrapped += "\n  ";
                used = 2;
            } else if used > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped += &show_text(&word.replace('\u{a0}', " "));
            used += length;
        }
        wrapped.push('\n');
    }
    wrapped
}

/// Writes a number with its noun: `1 node`, `2 nodes`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(wrap("a line\nof two\n\n", 8), "a line\nof two\n\n");
        assert_eq!(wrap("two ×× words", 6), "two ××\n  words\n");
        assert_eq!(wrap("unbreakable is", 4), "unbreakable\n  is\n");
        assert_eq!(wrap("start\u{a0}1, end\u{a0}2", 12), "start 1,\n  end 2\n");
        assert_eq!(wrap("", 4), "");
    }

    #[test]
    fn one_is_singular() {
        let counted = [0, 1, 2].map(|number| count(number, "iteration"));
        assert_eq!(counted, ["0 iterations", "1 iteration", "2 iterations"]);
    }
}
