//! For the tests of the door and of the drop folder: artifacts of one line, opened without a compiler.
//! That real ones are opened is tested where they are.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::opener::Opener;
use super::{ClassName, Extensions, Form, Kind, Options, RegisterError, Registered, Source};
use crate::artifact::{Description, Limits, Loaded, OpenError};
use crate::filter::{Broke, BrokeKind, MessageFilter, Verdict};
use crate::lister::TopicLister;
use crate::message::{Field, Messages};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A component of this class and version that takes any configuration.
pub(crate) fn component(class: &str, version: &str) -> Vec<u8> {
    artifact("\0asm", &json!({ "class": class, "version": version }))
}

/// A native library of this class and version.
pub(crate) fn native(class: &str, version: &str) -> Vec<u8> {
    artifact("\x7fELF", &json!({ "class": class, "version": version }))
}

/// A component that needs `{"minutes": <a number from 0 on>}`.
pub(crate) fn configurable(class: &str, version: &str) -> Vec<u8> {
    let schema = json!({
        "type": "object", "required": ["minutes"], "additionalProperties": false,
        "properties": { "minutes": { "type": "integer", "minimum": 0 } }
    });
    artifact("\0asm", &json!({ "class": class, "version": version, "schema": schema }))
}

/// An artifact that declares all this.
pub(crate) fn artifact(magic: &str, declares: &Value) -> Vec<u8> {
    format!("{magic}{declares}\n").into_bytes()
}

/// Bytes that begin with these and have the CRC32 of those.
pub(crate) fn with_crc_of(bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let table: Vec<u32> = (0..256u32)
        .map(|n| (0..8).fold(n, |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 }))
        .collect();
    let mut state = !crc32fast::hash(other);
    for _ in 0..4 {
        let index = (0..256).find(|n| table[*n] >> 24 == state >> 24).unwrap();
        state = ((state ^ table[index]) << 8) | u32::try_from(index).unwrap();
    }
    let suffix = (state ^ !crc32fast::hash(bytes)).to_le_bytes();
    [bytes, &suffix].concat()
}

#[derive(Deserialize)]
struct Declared {
    class: String,
    version: String,
    #[serde(default = "filter")]
    kinds: Vec<Kind>,
    #[serde(default)]
    schema: Value,
    /// How it answers to a configuration: nothing, `error`, `trap`.
    #[serde(default)]
    configure: String,
    /// Why it cannot be opened.
    open: Option<String>,
}

fn filter() -> Vec<Kind> {
    vec![Kind::Filter]
}

/// Opens the artifacts of this module.
#[derive(Default)]
pub(crate) struct Lines {
    /// How many were opened, and the most at once.
    pub(crate) opened: Mutex<(usize, usize, usize)>,
    /// Whatever is configured breaks.
    pub(crate) breaks: Arc<AtomicBool>,
}

struct Line {
    description: Description,
    configure: String,
    limits: Limits,
    breaks: Arc<AtomicBool>,
}

struct Says(u32);

impl Lines {
    fn open(&self, bytes: &[u8], limits: Limits) -> Result<Arc<dyn Loaded>, OpenError> {
        {
            let (all, now, most) = &mut *self.opened.lock();
            *all += 1;
            *now += 1;
            *most = (*most).max(*now);
        }
        std::thread::yield_now();
        let line = bytes[4..].split(|b| *b == b'\n').next().unwrap();
        let declared = serde_json::from_slice::<Declared>(line).map_err(|error| OpenError(error.to_string()));
        self.opened.lock().1 -= 1;
        let Declared { class, version, kinds, schema, configure, open } = declared?;
        if let Some(reason) = open {
            return Err(OpenError(reason));
        }
        let schema = if schema.is_null() { json!({ "type": "object" }) } else { schema };
        let class = ClassName::new(&class).map_err(OpenError)?;
        let description = Description { class, kinds, version, contract: "1.0".into(), schema };
        let breaks = Arc::clone(&self.breaks);
        Ok(Arc::new(Line { description, configure, limits, breaks }))
    }
}

impl Opener for Lines {
    fn sniff(&self, bytes: &[u8]) -> Result<Form, OpenError> {
        match bytes {
            [0, b'a', b's', b'm', ..] if bytes.ends_with(b"}") => Err(OpenError("it is cut".into())),
            [0, b'a', b's', b'm', ..] => Ok(Form::Component),
            [0x7f, b'E', b'L', b'F', ..] => Ok(Form::Native),
            _ => Err(OpenError(format!("its first bytes are {:02x?}", &bytes[..bytes.len().min(4)]))),
        }
    }

    fn component(&self, bytes: &[u8], _: &str, limits: Limits) -> Result<Arc<dyn Loaded>, OpenError> {
        self.open(bytes, limits)
    }

    fn native(&self, bytes: &[u8], _: &str, _: &Path, limits: Limits) -> Result<Arc<dyn Loaded>, OpenError> {
        self.open(bytes, limits)
    }
}

impl Loaded for Line {
    fn description(&self) -> &Description {
        &self.description
    }

    fn configure(&self, _: &str) -> Result<Vec<Field>, Broke> {
        let broke = |kind, reason: &str| Err(Broke { kind, reason: reason.into() });
        if self.breaks.load(Ordering::Relaxed) {
            return broke(BrokeKind::Deadline, "the machine is busy");
        }
        match self.configure.as_str() {
            "error" => broke(BrokeKind::Error, "minutes are not for me"),
            "trap" => broke(BrokeKind::Trap, "unreachable"),
            _ => Ok(vec![Field::Key]),
        }
    }

    /// Rejects as many messages as its version says, then accepts.
    fn filter(&self, _: &str, _: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke> {
        assert!(!self.limits.deadline.is_zero());
        Ok(Box::new(Says(self.description.version.parse().unwrap())))
    }

    fn lister(&self, _: &str) -> Result<Box<dyn TopicLister>, Broke> {
        Err(Broke { kind: BrokeKind::Error, reason: "not a lister".into() })
    }
}

impl MessageFilter for Says {
    fn judge(&mut self, _: &Messages<'_>, rows: &[u32], verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
        verdicts.extend(rows.iter().map(|row| if *row < self.0 { Verdict::Reject } else { Verdict::Accept }));
        Ok(())
    }
}

/// A table on disk, with the artifacts of this module.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) options: Options,
    pub(crate) lines: Arc<Lines>,
    pub(crate) extensions: Arc<Extensions>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        let limits = Limits { deadline: Duration::from_millis(50), memory: 64 << 20 };
        let mut options = Options::new(folder.path().join("data"), limits);
        change(&mut options);
        let lines = Arc::new(Lines::default());
        let opener = Arc::clone(&lines) as Arc<dyn Opener>;
        let extensions = Extensions::open_with(options.clone(), Vec::new(), opener).unwrap();
        Self { folder, options, lines, extensions }
    }

    /// The same folder, opened by the next process.
    pub(crate) fn restart(&mut self) {
        self.restart_with(|_| ());
    }

    pub(crate) fn restart_with(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.options);
        let opener = Arc::clone(&self.lines) as Arc<dyn Opener>;
        self.extensions = Extensions::open_with(self.options.clone(), Vec::new(), opener).unwrap();
    }

    pub(crate) fn plugins(&self) -> std::path::PathBuf {
        std::fs::canonicalize(self.folder.path().join("plugins")).unwrap()
    }

    /// Writes a file of the drop folder.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.plugins().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file of the drop folder and hands it to the door.
    pub(crate) fn drop_in(&self, name: &str, bytes: &[u8]) -> Result<Registered, RegisterError> {
        self.extensions.register(Source::File(self.write(name, bytes)))
    }

    pub(crate) fn upload(&self, class: &str, bytes: &[u8]) -> Result<Registered, RegisterError> {
        self.extensions.register(upload(class, bytes))
    }

    /// An upload with the configuration that is to go with it.
    pub(crate) fn upload_with(
        &self,
        class: &str,
        bytes: &[u8],
        with: Value,
    ) -> Result<Registered, RegisterError> {
        let mut source = upload(class, bytes);
        if let Source::Upload { config, .. } = &mut source {
            *config = Some(with);
        }
        self.extensions.register(source)
    }

    /// The version in force, asked of the listing and of an instance: they must agree.
    pub(crate) fn in_force(&self, class: &str) -> Option<String> {
        in_force(&self.extensions, class)
    }

    /// The names of the kept artifacts.
    pub(crate) fn artifacts(&self) -> Vec<String> {
        let folder = self.options.folder.join("artifacts");
        let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

pub(crate) fn class(name: &str) -> ClassName {
    ClassName::new(name).unwrap()
}

pub(crate) fn upload(name: &str, bytes: &[u8]) -> Source {
    Source::Upload {
        class: class(name),
        bytes: bytes.to_vec().into(),
        crc32: None,
        sha256: None,
        config: None,
        force: false,
        from: "PUT from a test".into(),
    }
}

pub(crate) fn in_force(extensions: &Extensions, name: &str) -> Option<String> {
    let info = extensions.info(&class(name))?;
    let Ok(configured) = extensions.configured(&class(name), Kind::Filter, None) else {
        return Some(info.state);
    };
    let mut verdicts = Vec::new();
    let messages = Messages::new(Arc::clone(configured.reads()));
    let rows: Vec<u32> = (0..100).collect();
    configured.filter().unwrap().judge(&messages, &rows, &mut verdicts).unwrap();
    // Another version may have come between the two look-ups.
    if extensions.info(&class(name)).is_none_or(|now| now.sha256 != info.sha256) {
        return in_force(extensions, name);
    }
    let says = verdicts.iter().filter(|verdict| **verdict == Verdict::Reject).count();
    assert_eq!(says.to_string(), info.version, "what runs is what is listed");
    Some(info.version)
}

/// Waits for changes of a table.
pub(crate) struct Changes {
    signal: Arc<(Mutex<()>, Condvar)>,
}

impl Changes {
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let signal = Arc::new((Mutex::new(()), Condvar::new()));
        let there = Arc::clone(&signal);
        extensions.on_change(move || {
            drop(there.0.lock());
            there.1.notify_all();
        });
        Self { signal }
    }

    /// Waits until this holds; it is looked at after every change.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let (lock, condvar) = &*self.signal;
        let mut guard = lock.lock();
        let deadline = std::time::Instant::now() + PATIENCE;
        while !holds() {
            assert!(!condvar.wait_until(&mut guard, deadline).timed_out() || holds(), "waited for: {what}");
        }
    }
}
