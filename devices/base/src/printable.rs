//! Names and texts that others chose, as they are printed for people.
//!
//! A name from a file may hold characters that are not seen, turn the direction of the text around them, or end its line.
//! They are printed as Rust writes them, such as `\u{200b}`, and long names are cut. Documents for programs keep the true
//! names.

use std::borrow::Cow;
use std::path::Path;

/// Longest name that is printed, in characters.
pub const LONGEST: usize = 80;

/// Returns `name` for a line: hidden characters escaped, and the middle left out if it is longer than [`LONGEST`].
///
/// ```
/// use isochron_base::printable::show_name;
///
/// assert_eq!(show_name("cpu\u{200b}0"), "cpu\\u{200b}0");
/// assert_eq!(show_name(&"x".repeat(1000)).chars().count(), 80);
/// ```
pub fn show_name(name: &str) -> Cow<'_, str> {
    cut(escape(name))
}

/// Returns a path for a line: hidden characters escaped, and nothing left out, since a path is needed as it is.
///
/// ```
/// use isochron_base::printable::show_path;
///
/// assert_eq!(show_path("a\nb.npy".as_ref()), "a\\nb.npy");
/// ```
pub fn show_path(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}

/// Returns a text of several lines and words. Hidden characters are escaped, except the ends of lines. A word is cut as a
/// [name](show_name), unless it has a `/`: a path is needed as it is.
pub fn show_text(text: &str) -> Cow<'_, str> {
    let escaped = escape_but(text, '\n');
    let is_long = |word: &str| !word.contains('/') && word.chars().nth(LONGEST).is_some();
    if !escaped.split([' ', '\n']).any(is_long) {
        return escaped;
    }
    let pieces = escaped.split_inclusive([' ', '\n']).map(|piece| {
        let word = piece.trim_end_matches([' ', '\n']);
        let end = &piece[word.len()..];
        if is_long(word) { format!("{}{end}", cut(Cow::Borrowed(word))) } else { piece.to_owned() }
    });
    Cow::Owned(pieces.collect())
}

/// Returns `text` with its hidden characters escaped.
pub fn escape(text: &str) -> Cow<'_, str> {
    // The escaped text has neither.
    escape_but(text, ' ')
}

fn escape_but(text: &str, kept: char) -> Cow<'_, str> {
    if text.chars().all(|c| c == kept || !is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        if c == kept || !is_hidden(c) {
            shown.push(c);
        } else if c.is_control() {
            shown.extend(c.escape_debug());
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    Cow::Owned(shown)
}

/// Returns `true` if a character is not seen where it stands: controls, formats, separators, spaces other than the usual one,
/// what Unicode has not assigned, and letters and marks of no width.
fn is_hidden(c: char) -> bool {
    if c.is_ascii_graphic() || c == ' ' {
        return false;
    }
    let has_no_width = matches!(
        c,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0100}'..='\u{e01ef}'
    );
    // The standard library escapes the other ones. Behind a letter it leaves marks such as accents as they are.
    has_no_width || format!("x{c}").escape_debug().count() > 2
}

fn cut(text: Cow<'_, str>) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let begin = text.chars().take(LONGEST / 2);
    let end = text.chars().skip(length - (LONGEST - LONGEST / 2 - 1));
    Cow::Owned(begin.chain(['…']).chain(end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_not_seen_are_escaped() {
        for c in [
            '\0',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0001}',
        ] {
            let shown = show_name(&format!("a{c}b")).into_owned();
            let code = format!("\\u{{{:x}}}", u32::from(c));
            let code = if c == '\0' { "\\0".to_owned() } else { code };
            assert_eq!(shown, format!("a{code}b"), "{c:?}");
        }
        assert_eq!(show_name("a\tb\r\nc"), "a\\tb\\r\\nc");
        assert_eq!(show_text("a\tb\nc"), "a\\tb\nc");
    }

    #[test]
    fn names_in_any_script_stay() {
        for name in
            ["cpu:0-7 \"x\" \\ 'y'", "Gerät", "Gera\u{308}t", "节点", "узел", "עב", "×", "🖥"]
        {
            assert_eq!(show_name(name), name);
            assert!(matches!(show_text(name), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn long_names_are_cut_and_paths_in_a_text_are_not() {
        let (long, path) = ("é".repeat(81), format!("/{}", "x".repeat(100)));
        assert_eq!(show_name(&"é".repeat(80)), "é".repeat(80));
        let shown = format!("{}…{}", "é".repeat(40), "é".repeat(39));
        assert_eq!(show_name(&long), shown);
        assert_eq!(show_text(&format!("a {long}\n {path} b")), format!("a {shown}\n {path} b"));
        assert_eq!(show_name(&"\u{200b}".repeat(80)).chars().count(), LONGEST);
    }
}
