//! Strings with escapes. Python says which characters have which.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What stands in a message for each byte of a string.
///
/// `longer` are characters of several bytes that have an escape. With `printable`, ranges of characters, a string is
/// quoted as Go quotes bytes: the table is for bytes that are not UTF-8 too, and other characters get Go's escapes.
#[pyclass(module = "tidewire_native", frozen)]
pub struct Escapes {
    table: Vec<Vec<u8>>,
    changes: [bool; 256],
    longer: Vec<(Vec<u8>, Vec<u8>)>,
    printable: Option<Vec<(u32, u32)>>,
}

#[pymethods]
impl Escapes {
    #[new]
    #[pyo3(signature = (table, longer, printable=None))]
    fn new(
        table: Vec<Vec<u8>>,
        longer: Vec<(Vec<u8>, Vec<u8>)>,
        printable: Option<Vec<(u32, u32)>>,
    ) -> PyResult<Escapes> {
        if table.len() != 256 || longer.iter().any(|(text, _)| text.is_empty()) {
            return Err(PyValueError::new_err("a table of 256 bytes is needed, and characters of several"));
        }
        let mut changes = [false; 256];
        for (byte, change) in changes.iter_mut().enumerate() {
            *change = table[byte] != [byte as u8] || (printable.is_some() && byte >= 0x80);
        }
        for (text, _) in &longer {
            changes[usize::from(text[0])] = true;
        }
        Ok(Escapes { table, changes, longer, printable })
    }
}

impl Escapes {
    /// The string with its escapes.
    pub fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(at) = rest.iter().position(|&byte| self.changes[usize::from(byte)]) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            rest = match &self.printable {
                Some(printable) if rest[0] >= 0x80 => self.quoted(rest, printable, out),
                _ => self.escaped(rest, out),
            };
        }
        out.extend_from_slice(rest);
    }

    fn escaped<'a>(&self, rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        for (text, escape) in &self.longer {
            if let Some(behind) = rest.strip_prefix(text.as_slice()) {
                out.extend_from_slice(escape);
                return behind;
            }
        }
        out.extend_from_slice(&self.table[usize::from(rest[0])]);
        &rest[1..]
    }

    /// Everything up to the next byte of ASCII, as Go quotes it.
    fn quoted<'a>(&self, rest: &'a [u8], printable: &[(u32, u32)], out: &mut Vec<u8>) -> &'a [u8] {
        let (text, behind) = rest.split_at(rest.iter().take_while(|&&byte| byte >= 0x80).count());
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                let code = character as u32;
                let found = printable.partition_point(|&(_, last)| last < code);
                if printable.get(found).is_some_and(|&(first, _)| first <= code) {
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                } else if code <= 0xffff {
                    out.extend_from_slice(format!("\\\\u{code:04x}").as_bytes());
                } else {
                    out.extend_from_slice(format!("\\\\U{code:08x}").as_bytes());
                }
            }
            for &byte in chunk.invalid() {
                out.extend_from_slice(&self.table[usize::from(byte)]);
            }
        }
        behind
    }
}
