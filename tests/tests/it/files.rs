//! The drop folder: each new content is taken once, and what is reported is what runs.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_tests::artifacts::{self, Form};
use weir_tests::pulsar::{Connection, Fields, entry, frame_with, kind};
use weir_tests::wait;
use weir_tests::weir::{Home, Weir};

const CLASS: &str = "demo.Swap";
const TOPIC: &str = "persistent://public/default/files";

/// Publishes 1 and 2 and sees which of them the version in force lets through.
struct Probe {
    connection: Connection,
    sequence: u64,
}

impl Probe {
    fn new(weir: &Weir) -> Self {
        weir.bind(TOPIC, "probe", CLASS, &serde_json::Value::Null, "withhold");
        let mut connection = Connection::open(weir.pulsar);
        assert_eq!(connection.producer(TOPIC, 1, 1).kind, kind::PRODUCER_SUCCESS);
        assert_eq!(connection.subscribe(TOPIC, "probe", 2, 2).kind, kind::SUCCESS);
        connection.send(kind::FLOW, Fields::new().int(1, 2).int(2, 1000));
        Self { connection, sequence: 0 }
    }

    /// The number that is let through.
    #[track_caller]
    fn accepted(&mut self) -> u8 {
        for n in ["1", "2"] {
            let body = Fields::new().int(1, 1).int(2, self.sequence);
            let sent = entry("probe", self.sequence, &[("n", n)], n.as_bytes());
            self.connection.write(&frame_with(kind::SEND, body, &sent));
            self.sequence += 1;
        }
        let message = self.connection.read_kind(kind::MESSAGE);
        let id = message.body.message(2).expect("a message has a position");
        let (ledger, entry) = (id.int(1).unwrap(), id.int(2).unwrap());
        let ack = Fields::new().int(1, ledger).int(2, entry).done();
        self.connection.send(kind::ACK, Fields::new().int(1, 2).int(2, 0).bytes(3, ack));
        *message.entry.last().unwrap() - b'0'
    }
}

fn home() -> Home {
    Home::new().set("plugins.poll=100ms")
}

/// How a new content gets to its name.
#[derive(Clone, Copy, Debug)]
enum How {
    RenamedOver,
    CopiedOver,
    DeletedBefore,
}

fn check_replacing(form: Form) {
    let (Some(odd), Some(even)) = (artifacts::read("odd", form), artifacts::read("even", form)) else {
        return;
    };
    let weir = home().start();
    let name = format!("swap.{}", form.ending());
    let path = weir.home().plugins().join(&name);
    weir.home().drop_file(&name, &odd);
    weir.wait_in_force(CLASS, &odd);
    let mut probe = Probe::new(&weir);
    assert_eq!(probe.accepted(), 1);
    let steps = [
        (How::RenamedOver, &even, 2),
        (How::RenamedOver, &odd, 1),
        (How::CopiedOver, &even, 2),
        (How::DeletedBefore, &odd, 1),
        (How::CopiedOver, &even, 2),
    ];
    for (how, artifact, accepted) in steps {
        match how {
            How::RenamedOver => weir.home().drop_file(&name, artifact),
            How::CopiedOver => fs::write(&path, artifact).unwrap(),
            How::DeletedBefore => {
                fs::remove_file(&path).unwrap();
                wait::until("the extension to be withdrawn", || match weir.in_force(CLASS) {
                    None => Ok(()),
                    Some(crc32) => Err(crc32),
                });
                weir.home().drop_file(&name, artifact);
            }
        }
        weir.wait_in_force(CLASS, artifact);
        assert_eq!(probe.accepted(), accepted, "{how:?}: what runs is what is reported");
    }
}

#[test]
fn a_component_is_replaced_by_each_new_content() {
    check_replacing(Form::Component);
}

#[test]
fn a_library_is_replaced_by_each_new_content() {
    check_replacing(Form::Native);
}

#[test]
fn size_and_time_say_nothing_about_content() {
    let (Some(mut odd), Some(mut even)) =
        (artifacts::read("odd", Form::Native), artifacts::read("even", Form::Native))
    else {
        return;
    };
    // A library may have bytes behind its end.
    let size = odd.len().max(even.len());
    odd.resize(size, 0);
    even.resize(size, 0);
    let weir = home().start();
    let path = weir.home().plugins().join("swap.so");
    let beside = weir.home().folder().join("beside.so");
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let write = |path: &Path, artifact: &[u8]| {
        fs::write(path, artifact).unwrap();
        File::options().append(true).open(path).unwrap().set_modified(moment).unwrap();
    };
    write(&beside, &odd);
    fs::rename(&beside, &path).unwrap();
    weir.wait_in_force(CLASS, &odd);
    let mut probe = Probe::new(&weir);
    for (artifact, accepted, renamed) in
        [(&even, 2, true), (&odd, 1, true), (&even, 2, false), (&odd, 1, false), (&even, 2, true)]
    {
        if renamed {
            write(&beside, artifact);
            fs::rename(&beside, &path).unwrap();
        } else {
            write(&path, artifact);
        }
        weir.wait_in_force(CLASS, artifact);
        assert_eq!(probe.accepted(), accepted);
    }
}

#[test]
fn leftovers_are_never_loaded() {
    let Some(odd) = artifacts::read("odd", Form::Component) else { return };
    let weir = home().start();
    for name in ["swap.wasm~", ".swap.wasm.swp", "swap.wasm.tmp", ".swap.wasm", "#swap.wasm#", "swap.txt"] {
        weir.home().drop_file(name, &odd);
    }
    // One that is taken, later: then the others have been looked at.
    let Some(late) = artifacts::read("late-flights", Form::Component) else { return };
    weir.home().drop_file("late.wasm", &late);
    weir.wait_in_force("demo.LateFlights", &late);
    assert_eq!(weir.in_force(CLASS), None);
    assert_eq!(weir.get("/weir/v1/refused"), serde_json::json!([]));
}

#[test]
fn a_restart_does_not_undo_an_upload() {
    let (Some(odd), Some(even)) =
        (artifacts::read("odd", Form::Component), artifacts::read("even", Form::Component))
    else {
        return;
    };
    let weir = home().start();
    weir.home().drop_file("swap.wasm", &odd);
    weir.wait_in_force(CLASS, &odd);
    let _ = weir.register(CLASS, &even).ok();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&even)));
    let weir = weir.kill().start();
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&even)));
    let mut probe = Probe::new(&weir);
    assert_eq!(probe.accepted(), 2);
}

#[test]
fn a_removed_class_comes_back_when_its_file_is_copied_in_again() {
    let Some(odd) = artifacts::read("odd", Form::Component) else { return };
    let weir = home().start();
    weir.home().drop_file("swap.wasm", &odd);
    weir.wait_in_force(CLASS, &odd);
    let removed = weir.command(&["extension", "remove", CLASS]);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    let weir = weir.kill().start();
    assert_eq!(weir.in_force(CLASS), None, "a restart does not undo a removal");
    let listed = weir.command(&["extension", "list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = listed.lines().find(|line| line.starts_with("not in force: ")).expect("the file is listed");
    assert!(
        line.contains("swap.wasm") && line.contains("demo.Swap was removed; write the file anew"),
        "{line}"
    );
    fs::write(weir.home().plugins().join("swap.wasm"), &odd).unwrap();
    weir.wait_in_force(CLASS, &odd);
    assert_eq!(weir.get("/weir/v1/refused"), serde_json::json!([]));
}

#[test]
fn an_extension_that_waits_for_a_configuration_is_no_error() {
    let needy = artifacts::in_need_of_minutes("demo.Needy");
    let weir = home().start();
    weir.home().drop_file("needy.wasm", &needy);
    weir.wait_in_force("demo.Needy", &needy);
    let weir = weir.kill().start();
    let state = weir.extension("demo.Needy").unwrap()["state"].as_str().unwrap().to_owned();
    assert_eq!(state, "waits for a configuration: \"minutes\" is a required property");
    let log = weir.log().join("\n");
    assert!(log.contains("extension opened again") && log.contains("waits for a configuration"), "{log}");
    assert!(!log.contains("ERROR"), "nobody has to act: {log}");
    let listed = weir.command(&["extension", "list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("weir extension configure demo.Needy"), "it says what to do: {listed}");
}

#[test]
fn a_second_file_of_a_class_in_force_is_refused_and_named() {
    let (Some(odd), Some(even)) =
        (artifacts::read("odd", Form::Component), artifacts::read("even", Form::Component))
    else {
        return;
    };
    let weir = home().start();
    weir.home().drop_file("first.wasm", &odd);
    weir.wait_in_force(CLASS, &odd);
    weir.home().drop_file("second.wasm", &even);
    let refused = wait::until("the second file to be refused", || {
        let refused = weir.get("/weir/v1/refused");
        match refused.pointer("/0/reason").and_then(|reason| reason.as_str()) {
            Some(reason) => Ok(reason.to_owned()),
            None => Err(refused),
        }
    });
    assert!(refused.contains("first.wasm"), "{refused}");
    assert_eq!(weir.in_force(CLASS), Some(artifacts::crc32(&odd)));
}
