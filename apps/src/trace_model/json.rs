//! The events of a JSON trace, one by one: the elements of an array, alone or as `traceEvents` of an object.

use serde_json::Value;

use super::lines::TraceFile;

/// The key of an object that holds the events.
const EVENTS: &[u8] = b"\"traceEvents\"";

/// A trace from which events are read.
pub struct JsonEvents<'a> {
    file: &'a mut TraceFile,
    /// The array is in an object.
    in_object: bool,
    text: Vec<u8>,
}

impl<'a> JsonEvents<'a> {
    /// Finds the array of the events.
    ///
    /// # Errors
    /// The line and the reason, if there is none.
    pub fn open(file: &'a mut TraceFile) -> Result<Self, String> {
        file.line = 1;
        let mut events = Self::go_on(file, false);
        let first = events.skip_space()?;
        if first == Some(b'{') {
            events.in_object = true;
            events.find_array()?;
        }
        Ok(events)
    }

    /// Goes on after an event of an array, which may be in an object.
    pub fn go_on(file: &'a mut TraceFile, in_object: bool) -> Self {
        Self { file, in_object, text: Vec::new() }
    }

    /// Returns `true` if the array is in an object.
    pub fn is_in_object(&self) -> bool {
        self.in_object
    }

    /// Returns `true` if the reading is due to pause.
    pub fn is_due(&self) -> bool {
        self.file.is_due()
    }

    /// Returns the next event with its line; `None` after the last one. The array may lack its end, as the format
    /// allows.
    ///
    /// # Errors
    /// The line and the reason.
    pub fn next_event(&mut self) -> Result<Option<(u64, Value)>, String> {
        loop {
            return match self.skip_space()? {
                Some(b',') => continue,
                Some(b']') => self.check_rest().map(|()| None),
                None if !self.in_object => Ok(None),
                None => Err(self.file.blame_line("the trace is truncated: its array does not end")),
                Some(first) => {
                    let line = self.file.line;
                    self.read_value(first)?;
                    self.parse_event(line).map(|event| Some((line, event)))
                }
            };
        }
    }

    fn parse_event(&self, line: u64) -> Result<Value, String> {
        serde_json::from_slice(&self.text).map_err(|error| {
            let text = error.to_string();
            let reason = text.split(" at line ").next().unwrap_or_default();
            let line = line + error.line().saturating_sub(1) as u64;
            format!("line {line}: the event is no JSON (which has no NaN): {reason}")
        })
    }

    /// Reads the keys of an object up to the array of the events.
    fn find_array(&mut self) -> Result<(), String> {
        loop {
            match self.skip_space()? {
                Some(b',') => continue,
                Some(b'"') => self.read_value(b'"')?,
                _ => {
                    return Err(self.file.blame_line("the object has no array `traceEvents`"));
                }
            }
            let holds_events = self.text == EVENTS;
            if self.skip_space()? != Some(b':') {
                return Err(self.file.blame_line("a key without a value"));
            }
            match self.skip_space()? {
                Some(b'[') if holds_events => return Ok(()),
                Some(first) => self.read_value(first)?,
                None => {
                    return Err(self
                        .file
                        .blame_line("the trace is truncated: the object does not end"));
                }
            }
        }
    }

    /// Reads the object to its end, after the array.
    fn check_rest(&mut self) -> Result<(), String> {
        let mut depth = u32::from(self.in_object);
        while let Some(byte) = self.skip_space()? {
            match byte {
                b'"' => self.read_value(b'"')?,
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth > 0 => depth -= 1,
                _ if depth > 0 => {}
                _ => return Err(self.file.blame_line("more after the end of the trace")),
            }
        }
        match depth {
            0 => Ok(()),
            _ => Err(self.file.blame_line("the trace is truncated: its object does not end")),
        }
    }

    /// Reads a value into the text, up to its last character. `first` was read before.
    fn read_value(&mut self, first: u8) -> Result<(), String> {
        self.text.clear();
        self.text.push(first);
        let mut depth = i32::from(matches!(first, b'[' | b'{'));
        let mut in_string = first == b'"';
        let mut escaped = false;
        let is_word = depth == 0 && !in_string;
        while is_word || in_string || depth > 0 {
            let next = self.file.peek_byte()?;
            if is_word
                && next.is_none_or(|byte| b",]}".contains(&byte) || byte.is_ascii_whitespace())
            {
                break;
            }
            let Some(byte) = self.file.read_byte()? else {
                return Err(self
                    .file
                    .blame_line("the trace is truncated in the middle of a value"));
            };
            self.text.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the next character that is no white space.
    fn skip_space(&mut self) -> Result<Option<u8>, String> {
        loop {
            match self.file.read_byte()? {
                // The bytes of a mark of the byte order.
                Some(0xef | 0xbb | 0xbf) => {}
                Some(byte) if byte.is_ascii_whitespace() => {}
                byte => return Ok(byte),
            }
        }
    }
}
