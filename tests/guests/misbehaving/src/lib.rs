//! Does what a message, or its configuration, tells it to: everything that an extension should not.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use weir_plugin_api::{Config, Error, Field, Fields, Message, MessageFilter, Verdict, export, log};

/// How the instance behaves apart from its messages.
#[derive(Config)]
struct Settings {
    /// What making it does.
    #[config(default = Making::Fine)]
    new: Making,
    /// Whether dropping it panics.
    #[config(default)]
    panic_in_drop: bool,
}

#[derive(Config)]
enum Making {
    Fine,
    Error,
    Panic,
    Loop,
    Grow,
}

struct Misbehaving {
    settings: Settings,
    judged: u32,
    hoard: Vec<Vec<u8>>,
}

impl MessageFilter for Misbehaving {
    type Config = Settings;
    const CLASS: &'static str = "demo.Misbehaving";
    const READS: Fields = Fields::property("do").and_property("ms").and_property("text").and(Field::Payload);

    fn new(settings: Settings) -> Result<Self, Error> {
        let mut new = Self { settings, judged: 0, hoard: Vec::new() };
        match new.settings.new {
            Making::Fine => {}
            Making::Error => return Err(Error::new("told to refuse its configuration")),
            Making::Panic => panic!("told to panic in new"),
            Making::Loop => endless_loop(),
            Making::Grow => new.grow(),
        }
        Ok(new)
    }

    fn judge(&mut self, message: &Message<'_>) -> Result<Verdict, Error> {
        self.judged += 1;
        let ms = Duration::from_millis(message.property_as("ms").unwrap_or(1));
        match message.property("do").unwrap_or("accept") {
            "accept" => Ok(Verdict::Accept),
            "reject" => Ok(Verdict::Reject),
            "reschedule" => Ok(Verdict::Reschedule(ms)),
            "error" => Err(Error::new("told to return an error")),
            "panic" => panic!("told to panic"),
            "panic-with-a-value" => std::panic::panic_any(PanicsInDrop),
            "loop" => endless_loop(),
            "grow" => {
                self.grow();
                Ok(Verdict::Accept)
            }
            "sleep" => {
                #[expect(clippy::disallowed_methods, reason = "a component must not be able to")]
                std::thread::sleep(ms);
                Ok(Verdict::Accept)
            }
            "recurse" => Ok(Verdict::accept_if(recurse(0) == 0)),
            "print" => {
                #[expect(clippy::print_stdout, reason = "the host is to turn it into a log line")]
                {
                    println!("told to print");
                }
                Ok(Verdict::Accept)
            }
            "print-for-ever" => loop {
                #[expect(clippy::print_stdout, reason = "the host is to cut it, and not to log it all")]
                {
                    println!("told to print, again and again");
                }
            },
            // On a thread of its own, which a component cannot have.
            "panic-elsewhere" => {
                let elsewhere = std::thread::Builder::new().spawn(|| panic!("told to panic on a thread"));
                let elsewhere = elsewhere.map_err(|error| Error::new(format_args!("no thread: {error}")))?;
                Ok(Verdict::accept_if(elsewhere.join().is_err()))
            }
            // Nothing wrong with it; std asks its host for a seed.
            "hash" => {
                let counts = HashMap::from([(message.payload()?.len(), 1), (usize::MAX, 2)]);
                Ok(Verdict::accept_if(counts.values().sum::<i32>() == 3))
            }
            "log" => {
                log::info(message.property("text").unwrap_or("told to log"));
                Ok(Verdict::Accept)
            }
            "undeclared" => Ok(Verdict::accept_if(message.property("not-declared").is_some())),
            // Accepts a payload that has an even number of bytes.
            "payload" => Ok(Verdict::accept_if(message.payload()?.len().is_multiple_of(2))),
            // Accepts the first message of an instance only.
            "first" => Ok(Verdict::accept_if(self.judged == 1)),
            other => Err(Error::new(format_args!("told to do {other:?}, which it cannot"))),
        }
    }
}

impl Misbehaving {
    /// Takes memory until there is none; a gigabyte at most, so that a native one is survived.
    fn grow(&mut self) {
        for _ in 0..1024 {
            self.hoard.push(black_box(vec![1; 1 << 20]));
        }
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        assert!(!self.settings.panic_in_drop, "told to panic in drop");
    }
}

/// Thrown by a panic; panics once more when the one who caught it lets it go.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("told to panic when its panic is dropped");
    }
}

fn endless_loop() -> ! {
    let mut spins = 0_u64;
    loop {
        spins = black_box(spins.wrapping_add(1));
    }
}

/// Until the stack is used up; never ask a native library for it.
#[expect(unconditional_recursion, reason = "it is to overflow the stack")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1))) + 1
}

export!(Misbehaving);
