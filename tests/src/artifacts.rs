//! Extensions as files: those built from source, and those that are wrong on purpose.

use std::path::PathBuf;

/// The form of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A WASM component.
    Component,
    /// A native library.
    Native,
}

impl Form {
    /// The ending of a file of this form.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Component => "wasm",
            Self::Native => "so",
        }
    }
}

/// The path of a built extension, by its crate.
#[must_use]
pub fn path(name: &str, form: Form) -> PathBuf {
    crate::target().join("guests").join(format!("{name}.{}", form.ending()))
}

/// A built extension's bytes; `None`, said loudly, if it is not built and may be left out.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn read(name: &str, form: Form) -> Option<Vec<u8>> {
    let path = path(name, form);
    crate::is_there(&path, "guests").then(|| std::fs::read(&path).expect("a built extension can be read"))
}

/// The checksum by which weir names an artifact: CRC32 as eight hex digits.
#[must_use]
pub fn crc32(artifact: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(artifact))
}

/// Artifacts that are wrong, each with what is wrong about it; made from a good component and a good
/// library of the same class, which `class` names.
#[must_use]
pub fn bad(class: &str, component: &[u8], library: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Vec::new()),
        ("cut in half", component[..component.len() / 2].to_vec()),
        ("an HTML page", b"<!DOCTYPE html><html><body>404 Not Found</body></html>\n".to_vec()),
        ("for another CPU", for_another_cpu(library)),
        ("a core module", b"\0asm\x01\0\0\0".to_vec()),
        (
            "of another world",
            component_text("(component (core module $m) (core instance $i (instantiate $m)))"),
        ),
        ("of another contract", described(class, "2.0.0", "(i32.const 0)")),
        ("trapping in describe", described(class, "1.0.0", "unreachable")),
        ("looping in describe", described(class, "1.0.0", "(loop $for_ever (br $for_ever)) unreachable")),
    ]
}

/// A library whose header says that it is for the other one of x86-64 and AArch64.
fn for_another_cpu(library: &[u8]) -> Vec<u8> {
    const MACHINE_AT: usize = 18;
    const X86_64: u8 = 62;
    const AARCH64: u8 = 183;
    let mut library = library.to_vec();
    library[MACHINE_AT] = if library[MACHINE_AT] == X86_64 { AARCH64 } else { X86_64 };
    library
}

/// A filter that takes no configuration without `minutes`, and does nothing else.
///
/// # Panics
/// Never: its text is a component.
#[must_use]
pub fn in_need_of_minutes(class: &str) -> Vec<u8> {
    let description = format!(
        r#"{{"class":"{class}","kinds":["filter"],"version":"1","contract":"1.0","schema":{{"type":"object","required":["minutes"]}}}}"#
    );
    // `describe` gives back where its text lies: first the place and the length of it.
    let text = description.replace('"', "\\22");
    let length = little_endian(description.len());
    let data = format!(r#"(data (i32.const 0) "\10\00\00\00{length}") (data (i32.const 16) "{text}")"#);
    with_memory(class, "1.0.0", &data, "(i32.const 0)")
}

/// A filter of this class that is registered and configured like a good one, and traps on every batch.
///
/// # Panics
/// Never: its text is a component.
#[must_use]
pub fn trapping(class: &str) -> Vec<u8> {
    let description = format!(
        r#"{{"class":"{class}","kinds":["filter"],"version":"trapping","contract":"1.0","schema":{{"type":"object"}}}}"#
    );
    let (length, text) = (little_endian(description.len()), description.replace('"', "\\22"));
    component_text(&format!(
        r#"(component
            (core module $m
                (memory (export "memory") 2)
                (data (i32.const 0) "\10\00\00\00{length}") (data (i32.const 16) "{text}")
                ;; What `configure` gives back: no error, and a text of two bytes.
                (data (i32.const 8192) "\00\00\00\00\10\20\00\00\02\00\00\00") (data (i32.const 8208) "[]")
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 16384))
                (func (export "describe") (result i32) (i32.const 0))
                (func (export "configure") (param i32 i32) (result i32) (i32.const 8192))
                (func (export "judge") (param i32 i32) (result i32) unreachable))
            (core instance $i (instantiate $m))
            (func $describe (result string)
                (canon lift (core func $i "describe") (memory $i "memory") (realloc (func $i "realloc"))))
            (func $configure (param "config" string) (result (result string (error string)))
                (canon lift (core func $i "configure") (memory $i "memory") (realloc (func $i "realloc"))))
            (func $judge (param "batch" (list u8)) (result (result (list u8) (error string)))
                (canon lift (core func $i "judge") (memory $i "memory") (realloc (func $i "realloc"))))
            (instance $meta (export "describe" (func $describe)) (export "configure" (func $configure)))
            (instance $filter (export "judge" (func $judge)))
            (export "weir:extension/meta@1.0.0" (instance $meta))
            (export "weir:extension/filter@1.0.0" (instance $filter)))"#
    ))
}

/// A length as the text format of WebAssembly writes bytes.
fn little_endian(length: usize) -> String {
    let length = u32::try_from(length).expect("a description is short");
    length.to_le_bytes().iter().map(|byte| format!("\\{byte:02x}")).collect()
}

/// A component that exports what a filter exports, of a version, and whose `describe` does `body`.
fn described(class: &str, version: &str, body: &str) -> Vec<u8> {
    with_memory(class, version, "", body)
}

fn with_memory(class: &str, version: &str, data: &str, body: &str) -> Vec<u8> {
    component_text(&format!(
        r#"(component
            ;; {class}
            (core module $m
                (memory (export "memory") 1)
                {data}
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "describe") (result i32) {body})
                (func (export "call") (param i32 i32) (result i32) unreachable))
            (core instance $i (instantiate $m))
            (func $describe (result string)
                (canon lift (core func $i "describe") (memory $i "memory") (realloc (func $i "realloc"))))
            (func $configure (param "config" string) (result (result string (error string)))
                (canon lift (core func $i "call") (memory $i "memory") (realloc (func $i "realloc"))))
            (func $judge (param "batch" (list u8)) (result (result (list u8) (error string)))
                (canon lift (core func $i "call") (memory $i "memory") (realloc (func $i "realloc"))))
            (instance $meta (export "describe" (func $describe)) (export "configure" (func $configure)))
            (instance $filter (export "judge" (func $judge)))
            (export "weir:extension/meta@{version}" (instance $meta))
            (export "weir:extension/filter@{version}" (instance $filter)))"#
    ))
}

fn component_text(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the text is a component")
}
