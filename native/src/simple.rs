//! What the two encodings of Simple share.

use crate::table::Op;

/// What stands before the images of a row, beside its names, id and version.
pub struct Header {
    pub op: Op,
    pub commit_ts: i64,
    pub key_only: bool,
}

/// Is a TIMESTAMP of this zone on the server's clock? Python moves those of other zones.
pub fn is_on_clock(zone: &[u8], server: &[u8]) -> bool {
    zone == server || zone == b"Local" || zone.is_empty()
}
