use super::*;

#[track_caller]
fn refused(bytes: &[u8], because: &str) {
    let error = sniff(bytes).expect_err("it should have been refused").to_string();
    assert!(error.contains(because), "{error}");
}

fn header(machine: u16, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes
}

#[test]
fn an_empty_component_and_a_library_are_told_apart() {
    assert_eq!(sniff(b"\0asm\x0d\0\x01\0").unwrap(), Form::Component);
    assert_eq!(sniff(&header(MACHINE, 3)).unwrap(), Form::Native);
}

#[test]
fn what_is_no_artifact_is_named() {
    refused(b"", "empty");
    refused(b"\n <!DOCTYPE html><html>404", "HTML page");
    refused(b"class Filter {}", "text, beginning with \"class Filter {}\"");
    refused(b"\xca\xfe\xba\xbe\0\0\0\x34", "Java class");
    refused(b"PK\x03\x04rest", "archive");
    refused(b"MZ\x90\0", "Windows");
    refused(b"\xff\xfe\xfd", "first bytes are [ff, fe, fd]");
    refused(b"\0asm\x01\0\0\0", "core WebAssembly module");
    refused(b"\0asm\x02\0\0\0", "version 02 00 00 00");
}

#[test]
fn a_cut_file_is_called_cut() {
    refused(b"\0asm\x0d", "cut");
    refused(b"\0asm\x0d\0\x01\0\x00\x05ab", "needs 3 more bytes");
    refused(b"\0asm\x0d\0\x01\0\x00", "needs 1 more bytes");
    refused(b"\0asm\x0d\0\x01\0\x00\xff", "needs 1 more bytes");
    let mut cut = header(MACHINE, 3);
    cut[40..48].copy_from_slice(&1000u64.to_le_bytes());
    refused(&cut, "headers speak of 1000 bytes and there are 64");
    refused(&header(MACHINE, 3)[..10], "cut");
}

#[test]
fn a_library_for_another_machine_names_both() {
    let (other, name) = if MACHINE == 183 { (62, "x86-64") } else { (183, "aarch64") };
    refused(&header(other, 3), name);
    refused(&header(MACHINE, 2), "not a shared library");
}
