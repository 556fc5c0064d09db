//! A program that does nothing. It shows what starting any plugin costs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Built as the plugins are.
pub fn build(directory: &Path) -> PathBuf {
    let (source, program) = (directory.join("floor.rs"), directory.join("floor"));
    std::fs::write(&source, "fn main() {}\n").unwrap();
    let built = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
        ])
        .args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"])
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("rustc is there");
    assert!(built.success(), "the floor could not be built");
    program
}
