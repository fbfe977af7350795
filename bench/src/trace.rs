//! Lines of a trace.

/// Returns the seconds of the day in a line that begins with a date and a time.
pub fn clock_s(line: &str) -> Option<f64> {
    let (_, time) = line.split_once('T')?;
    let (time, _) = time.split_once('Z')?;
    let parts: Result<Vec<f64>, _> = time.split(':').map(str::parse).collect();
    let &[hours, minutes, seconds] = parts.ok()?.as_slice() else {
        return None;
    };
    Some(3600.0 * hours + 60.0 * minutes + seconds)
}

/// Returns the number right behind `key`.
pub fn number_after(line: &str, key: &str) -> Option<f64> {
    leading_number(line.split_once(key)?.1)
}

/// Returns the number at the beginning of a text.
fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | '-')));
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_read() {
        let line = "2026-01-01T10:00:01.500000Z TRACE an update begins k=512 took=1.5e-3, more";
        assert_eq!(clock_s(line), Some(36_001.5));
        assert_eq!(number_after(line, "k="), Some(512.0));
        assert_eq!(number_after(line, "took="), Some(1.5e-3));
        assert_eq!(number_after(line, "waits="), None);
        assert_eq!(clock_s("something else"), None);
    }
}
