//! A real `weir` in a process of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{RecvTimeoutError, unbounded};
use parking_lot::Mutex;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artifacts;
use crate::http::{self, Answer};
use crate::wait::{self, PATIENCE};

/// Lines of the log that a failed test shows.
const LOG_SHOWN: usize = 60;

/// The folders and settings of one weir, across its starts.
pub struct Home {
    folder: TempDir,
    settings: Vec<String>,
    config: Option<PathBuf>,
}

impl Home {
    /// Empty folders.
    ///
    /// # Panics
    /// When they cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        fs::create_dir(folder.path().join("plugins")).expect("a plug-in folder");
        Self { folder, settings: Vec::new(), config: None }
    }

    /// Adds a setting, as in `limits.connections=3`.
    #[must_use]
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Takes all settings away.
    #[must_use]
    pub fn without_settings(mut self) -> Self {
        self.settings.clear();
        self
    }

    /// Starts with this configuration file.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        let path = self.folder.path().join("host.toml");
        fs::write(&path, toml).expect("the configuration is written");
        self.config = Some(path);
        self
    }

    /// The drop folder.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// Puts a file into the drop folder as it should be done: written beside, renamed over.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn drop_file(&self, name: &str, bytes: &[u8]) {
        let beside = self.folder.path().join(format!("{name}.beside"));
        fs::write(&beside, bytes).expect("the artifact is written");
        fs::rename(&beside, self.plugins().join(name)).expect("the artifact is renamed");
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder for what a test wants to write beside.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts weir and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready: with its log.
    #[track_caller]
    #[must_use]
    pub fn start(self) -> Weir {
        match self.try_start() {
            Ok(weir) => weir,
            Err(refused) => panic!("weir did not start ({}):\n{}", refused.status, refused.log),
        }
    }

    /// Starts weir, which may refuse to.
    ///
    /// # Errors
    /// When it ends before it is ready.
    ///
    /// # Panics
    /// When it neither ends nor becomes ready in time.
    #[track_caller]
    pub fn try_start(self) -> Result<Weir, Refused> {
        let mut command = Command::new(binary());
        command.arg("serve").arg("--data").arg(self.data()).arg("--plugins").arg(self.plugins());
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        for setting in ["listen.pulsar=127.0.0.1:0", "listen.admin=127.0.0.1:0"] {
            command.arg("--set").arg(setting);
        }
        for setting in &self.settings {
            command.arg("--set").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("weir is started");
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().expect("was piped"));
        let collector = {
            let log = log.clone();
            thread::spawn(move || {
                for line in stderr.lines().map_while(Result::ok) {
                    log.lock().push(line);
                }
            })
        };
        let (sender, lines) = unbounded();
        let stdout = BufReader::new(child.stdout.take().expect("was piped"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Nobody reads on after the addresses; the pipe has to be emptied all the same.
                let _ = sender.send(line);
            }
        });
        let (mut pulsar, mut admin, mut said) = (None, None, String::new());
        while pulsar.is_none() || admin.is_none() {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let address =
                        |scheme: &str| line.split(scheme).nth(1).and_then(|rest| rest.trim().parse().ok());
                    match line.split_whitespace().next() {
                        Some("pulsar") => pulsar = address("pulsar://"),
                        Some("admin") => admin = address("http://"),
                        _ => {}
                    }
                    said.push_str(&line);
                    said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait().expect("weir ended");
                    collector.join().expect("the log was read");
                    let log = format!("{said}{}", log.lock().join("\n"));
                    return Err(Refused { home: self, status, log });
                }
                Err(RecvTimeoutError::Timeout) => {
                    // The test fails; what it started must not stay.
                    let _ = child.kill();
                    panic!("weir said no addresses within {PATIENCE:?}:\n{said}{}", log.lock().join("\n"));
                }
            }
        }
        let addresses = (pulsar.expect("was just read"), admin.expect("was just read"));
        let weir = Weir { home: Some(self), child, log, said, pulsar: addresses.0, admin: addresses.1 };
        wait::until("weir to be ready", || match weir.try_call("GET", "/weir/v1/ready", &[], b"") {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(answer.to_string()),
            Err(error) => Err(error.to_string()),
        });
        Ok(weir)
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// A start that weir refused.
pub struct Refused {
    /// To try again.
    pub home: Home,
    /// How it ended.
    pub status: ExitStatus,
    /// What it said on both outputs.
    pub log: String,
}

impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refused ({}): {}", self.status, self.log)
    }
}

/// A running weir. Killed when dropped.
pub struct Weir {
    home: Option<Home>,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// What it printed up to its addresses.
    pub said: String,
    /// Where Pulsar clients connect.
    pub pulsar: SocketAddr,
    /// Where admin calls go.
    pub admin: SocketAddr,
}

impl Weir {
    /// Its folders.
    ///
    /// # Panics
    /// Never: it has them until it is dropped.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.home.as_ref().expect("a running weir has its folders")
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As clients want it.
    #[must_use]
    pub fn service_url(&self) -> String {
        format!("pulsar://{}", self.pulsar)
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The log itself, for a look at it after the end.
    #[must_use]
    pub fn log_so_far(&self) -> Arc<Mutex<Vec<String>>> {
        self.log.clone()
    }

    /// From now on its disk takes nothing: files may not grow. What the system says of it is "File too
    /// large".
    ///
    /// # Panics
    /// When the system does not let us.
    #[track_caller]
    pub fn fill_disk(&self) {
        self.limit_files(Some(0));
    }

    /// Its disk has room again.
    ///
    /// # Panics
    /// When the system does not let us.
    #[track_caller]
    pub fn empty_disk(&self) {
        self.limit_files(None);
    }

    /// The hard limit stays as it is: whoever we are, the soft one can be raised to it again.
    #[track_caller]
    fn limit_files(&self, bytes: Option<u64>) {
        let ours = rustix::process::getrlimit(Resource::Fsize);
        let limit = Rlimit { current: bytes.or(ours.maximum), maximum: ours.maximum };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit)
            .expect("a limit of our own child");
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// When it had ended before.
    #[track_caller]
    #[must_use]
    pub fn kill(mut self) -> Home {
        let ended = self.child.try_wait().expect("weir can be asked for");
        assert!(ended.is_none(), "weir had ended by itself: {ended:?}");
        self.child.kill().expect("weir is killed");
        self.child.wait().expect("weir ended");
        self.home.take().expect("a running weir has its folders")
    }

    /// What `/metrics` says of one that has no labels.
    ///
    /// # Panics
    /// When there is none of that name.
    #[track_caller]
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        let answer = self.call("GET", "/metrics", b"");
        let text = String::from_utf8_lossy(&answer.body);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// SIGTERM, and does not wait.
    ///
    /// # Panics
    /// When there is no such process any more.
    pub fn ask_to_stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("weir is told to stop");
    }

    /// SIGTERM, and waits until it has ended.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    #[must_use]
    pub fn stop(mut self) -> (Home, ExitStatus) {
        self.ask_to_stop();
        let child = &mut self.child;
        let status = wait::until("weir to stop", || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("it still runs".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        (self.home.take().expect("a running weir has its folders"), status)
    }

    /// A call to the admin address.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn try_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        http::call(self.admin, method, path, headers, body)
    }

    /// A call to the admin address.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn call(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers = [("Content-Type", "application/json")];
        self.try_call(method, path, &headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// What is at an address, as JSON.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    #[must_use]
    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, b"").ok().json()
    }

    /// Sends JSON.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, body.to_string().as_bytes())
    }

    /// Registers a component under a class name.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn register(&self, class: &str, artifact: &[u8]) -> Answer {
        let headers = [("Content-Type", "application/wasm")];
        let path = format!("/weir/v1/extensions/{class}");
        self.try_call("PUT", &path, &headers, artifact).unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    /// What is said of an extension; `None` if it is not registered.
    ///
    /// # Panics
    /// When the answer is neither.
    #[track_caller]
    #[must_use]
    pub fn extension(&self, class: &str) -> Option<Value> {
        let answer = self.call("GET", &format!("/weir/v1/extensions/{class}"), b"");
        (answer.status != 404).then(|| answer.ok().json())
    }

    /// The checksum of what is in force under a class name, eight hex digits; `None` if nothing is.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn in_force(&self, class: &str) -> Option<String> {
        Some(self.extension(class)?["crc32"].as_str().expect("a checksum in hex").to_owned())
    }

    /// Waits until an artifact is in force.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn wait_in_force(&self, class: &str, artifact: &[u8]) {
        let wanted = artifacts::crc32(artifact);
        wait::until(&format!("{class} to be {wanted}"), || match self.in_force(class) {
            Some(crc32) if crc32 == wanted => Ok(()),
            other => Err(format!("{other:?} is in force; refused: {}", self.get("/weir/v1/refused"))),
        });
    }

    /// Binds one class, with a configuration, to a topic's subscription.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn bind(&self, topic: &str, subscription: &str, class: &str, config: &Value, on_failure: &str) {
        let filter = match config {
            Value::Null => json!(class),
            config => json!({ "class": class, "config": config }),
        };
        let binding = json!({
            "topic": topic, "subscription": subscription, "filters": [filter], "on-failure": on_failure,
        });
        let _ = self.put("/weir/v1/bindings", &binding).ok();
    }

    /// A topic's statistics, as Pulsar's REST gives them. `topic` as in `public/default/flights`.
    ///
    /// # Panics
    /// When there are none.
    #[track_caller]
    #[must_use]
    pub fn stats(&self, topic: &str) -> Value {
        self.get(&format!("/admin/v2/persistent/{topic}/stats"))
    }

    /// Messages that a subscription has not acknowledged.
    ///
    /// # Panics
    /// When the topic or the subscription is not there.
    #[track_caller]
    #[must_use]
    pub fn backlog(&self, topic: &str, subscription: &str) -> u64 {
        let stats = self.stats(topic);
        let backlog = stats.pointer(&format!("/subscriptions/{subscription}/msgBacklog"));
        backlog.and_then(Value::as_u64).unwrap_or_else(|| panic!("no backlog of {subscription} in {stats}"))
    }

    /// Runs a command of the command line against this weir.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Output {
        self.prepare(arguments).stdin(Stdio::null()).output().expect("weir is started")
    }

    /// Starts a command that reads what a test types.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_command(&self, arguments: &[&str]) -> Typing {
        let mut command = self.prepare(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Typing { child: Some(command.spawn().expect("weir is started")) }
    }

    fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .env("WEIR_URL", format!("http://{}", self.admin))
            .env("WEIR_SERVICE_URL", self.service_url());
        command
    }
}

/// A command with its standard input. Killed when dropped.
pub struct Typing {
    child: Option<Child>,
}

impl Typing {
    /// Types a line.
    ///
    /// # Panics
    /// When the command has ended.
    pub fn type_line(&mut self, line: &str) {
        let input = self.child.as_mut().and_then(|child| child.stdin.as_mut());
        writeln!(input.expect("its input is open"), "{line}").expect("the command reads");
    }

    /// Ends the input, and waits for the command's end.
    ///
    /// # Panics
    /// When it cannot be waited for.
    #[must_use]
    pub fn end(mut self) -> Output {
        let child = self.child.take().expect("it was not ended before");
        child.wait_with_output().expect("the command ends")
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Ended or not, nothing of it stays.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Weir {
    #[expect(clippy::print_stderr, reason = "a failed test shows what weir had to say")]
    fn drop(&mut self) {
        // Ended or not, nothing of it stays.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log.lock();
            let mut text = String::new();
            for line in log.iter().skip(log.len().saturating_sub(LOG_SHOWN)) {
                let _ = writeln!(text, "weir: {line}");
            }
            eprint!("{text}");
        }
    }
}

/// The binary under test: `WEIR_BIN`, or what Cargo built beside this: a debug one for a test, a release
/// one for a benchmark.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("WEIR_BIN") {
        return path.into();
    }
    let beside = std::env::current_exe().expect("a test binary has a path");
    // target/debug/deps/it-0123
    let path = beside.ancestors().nth(2).expect("Cargo puts test binaries into deps").join("weir");
    let how = if cfg!(debug_assertions) { "" } else { " --release" };
    assert!(path.exists(), "{} is missing: `cargo build{how} -p weir` makes it", path.display());
    path
}
