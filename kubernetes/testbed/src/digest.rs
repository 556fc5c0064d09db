//! SHA-256 in hexadecimal, for images and directory names.

use ring::digest::{Context, SHA256};

pub fn sha256<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let sum = context.finish();
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
