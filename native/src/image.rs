//! Rows as JSON objects: a member for each column, in an order that is the same in all rows of a shape.

use crate::column::Column;
use crate::json::Cursor;

pub type Bytes = Box<[u8]>;

/// A member: what stands before its value, and the number of its column.
#[derive(PartialEq)]
pub struct Member {
    pub text: Bytes,
    pub column: usize,
}

/// Read a row that has all members.
#[inline]
pub fn full<'a>(
    cursor: &mut Cursor<'a>,
    members: &[Member],
    columns: &mut [Column],
    mut value: impl FnMut(&mut Cursor<'a>, &mut Column, usize) -> Option<()>,
) -> Option<()> {
    let mut separator: &[u8] = b"{";
    for member in members {
        cursor.expect(separator)?;
        cursor.expect(&member.text)?;
        value(cursor, columns.get_mut(member.column)?, member.column)?;
        separator = b",";
    }
    cursor.expect(b"}")
}

/// Read a row that may leave out members; the numbers of their columns go to `gaps`.
#[inline]
pub fn partial<'a>(
    cursor: &mut Cursor<'a>,
    members: &[Member],
    columns: &mut [Column],
    gaps: &mut Vec<i16>,
    mut value: impl FnMut(&mut Cursor<'a>, &mut Column, usize) -> Option<()>,
) -> Option<()> {
    cursor.expect(b"{")?;
    let mut first = true;
    for member in members {
        let start = cursor.at;
        let column = columns.get_mut(member.column)?;
        if (first || cursor.pass(b",")) && cursor.pass(&member.text) {
            value(cursor, column, member.column)?;
            first = false;
        } else {
            cursor.at = start;
            column.null();
            gaps.push(i16::try_from(member.column).ok()?);
        }
    }
    gaps.sort_unstable();
    cursor.expect(b"}")
}
