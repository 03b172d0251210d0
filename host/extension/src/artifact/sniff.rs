//! What bytes are, told from their head and their own idea of their length, before anything that costs
//! a process is done with them.

use crate::artifact::OpenError;
use crate::extensions::Form;

#[cfg(test)]
mod tests;

/// Which form the bytes have.
///
/// # Errors
/// When they are neither a component nor a library of this machine, or are cut: says what they are.
pub(crate) fn sniff(bytes: &[u8]) -> Result<Form, OpenError> {
    let refuse = |what: String| Err(OpenError(what));
    match bytes {
        [] => refuse("it is empty".into()),
        [0, b'a', b's', b'm', rest @ ..] => wasm(bytes.len(), rest),
        [0x7f, b'E', b'L', b'F', ..] => elf(bytes),
        [b'M', b'Z', ..] => refuse("it is a Windows program; expected a WebAssembly component or an ELF library".into()),
        [0xfe | 0xcf, 0xed | 0xfa, ..] => {
            refuse("it is a macOS library; expected a WebAssembly component or an ELF library".into())
        }
        [0xca, 0xfe, 0xba, 0xbe, ..] => {
            refuse("it is a Java class; expected a WebAssembly component or an ELF library".into())
        }
        [b'P', b'K', 3, 4, ..] => {
            refuse("it is a ZIP or JAR archive; expected a WebAssembly component or an ELF library".into())
        }
        _ => refuse(match text(bytes) {
            Some(text) if is_html(text) => {
                "it is an HTML page (an error page of a download?); expected a WebAssembly component or an ELF library".into()
            }
            Some(text) => format!(
                "it is text, beginning with {:?}; expected a WebAssembly component or an ELF library",
                text.chars().take(24).collect::<String>()
            ),
            None => format!(
                "its first bytes are {:02x?}; expected a WebAssembly component or an ELF library",
                &bytes[..bytes.len().min(4)]
            ),
        }),
    }
}

/// `rest` is what follows the magic: version and layer, then sections.
fn wasm(len: usize, rest: &[u8]) -> Result<Form, OpenError> {
    match rest {
        // Layer 1, version 0d of the component model's binary format.
        [0x0d, 0, 1, 0, sections @ ..] => match cut(sections) {
            None => Ok(Form::Component),
            Some(missing) => Err(OpenError(format!(
                "it is cut: its last section needs {missing} more bytes than the {len} there are"
            ))),
        },
        [1, 0, 0, 0, ..] => Err(OpenError(
            "it is a core WebAssembly module; expected a component: build it with the SDK, or wrap it with `wasm-tools component new`"
                .into(),
        )),
        [a, b, c, d, ..] => Err(OpenError(format!(
            "it is WebAssembly of version {a:02x} {b:02x} {c:02x} {d:02x}; expected a component, 0d 00 01 00"
        ))),
        _ => Err(OpenError(format!("it is cut: only {len} bytes of a WebAssembly file"))),
    }
}

/// How many bytes are missing at the end of a chain of sections (an id, a length, that many bytes).
fn cut(mut sections: &[u8]) -> Option<u64> {
    while let [_, rest @ ..] = sections {
        let mut length = 0u64;
        let mut read = 0;
        loop {
            let Some(byte) = rest.get(read) else { return Some(1) };
            length |= u64::from(byte & 0x7f) << (7 * read);
            read += 1;
            // Longer than any length may be: for the compiler to refuse.
            if byte & 0x80 == 0 || read == 5 {
                break;
            }
        }
        let rest = &rest[read..];
        match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(next) => sections = next,
            None => return Some(length - rest.len() as u64),
        }
    }
    None
}

/// `EM_*` of this machine; the names of others are for the sentence.
const MACHINES: [(u16, &str); 7] = [
    (3, "x86 (32 bits)"),
    (21, "PowerPC"),
    (22, "IBM S/390"),
    (40, "ARM (32 bits)"),
    (62, "x86-64"),
    (183, "aarch64"),
    (243, "RISC-V"),
];

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
#[cfg(target_arch = "riscv64")]
const MACHINE: u16 = 243;

/// Checks an ELF file as far as the loader would crash or lie about it: a library cut short is mapped
/// without complaint and ends the process with SIGBUS when its missing part is touched.
fn elf(bytes: &[u8]) -> Result<Form, OpenError> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let short = || OpenError(format!("it is cut: only {} bytes of an ELF file", bytes.len()));
    let refuse = |what: String| Err(OpenError(what));
    let (Some(kind), Some(machine)) = (u16_at(16), u16_at(18)) else { return Err(short()) };
    if bytes[4] != 2 || bytes[5] != 1 || machine != MACHINE {
        let name = |machine: u16| {
            let known = MACHINES.iter().find(|(number, _)| *number == machine);
            known.map_or_else(|| format!("machine {machine}"), |(_, name)| (*name).to_owned())
        };
        return refuse(format!(
            "it is an ELF file for another machine, {}; expected {}",
            name(machine),
            name(MACHINE)
        ));
    }
    if kind != 3 {
        return refuse("it is an ELF file and not a shared library; build it as a cdylib".into());
    }
    let (Some(sections), Some(size), Some(count)) = (u64_at(40), u16_at(58), u16_at(60)) else {
        return Err(short());
    };
    // Linkers put the section headers last, so a file that holds them is whole.
    let end = sections.saturating_add(u64::from(size) * u64::from(count));
    if end > bytes.len() as u64 {
        return refuse(format!("it is cut: its headers speak of {end} bytes and there are {}", bytes.len()));
    }
    Ok(Form::Native)
}

/// The head as text, if it is text.
fn text(bytes: &[u8]) -> Option<&str> {
    let head = &bytes[..bytes.len().min(512)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end inside a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.chars().any(|c| c.is_control() && !c.is_ascii_whitespace())).then_some(text)
}

fn is_html(text: &str) -> bool {
    let head = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<!--"].iter().any(|tag| head.starts_with(tag))
}
