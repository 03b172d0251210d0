//! What the stock Python client sees over loopback: publishing, and consuming with and without a filter.
//!
//! Three processes of a release weir stand side by side: one without a filter, one with a native library,
//! one with the component of the same source. Each round takes them in turn, so that a machine that changes
//! its speed changes it for all; ratios are medians of the ratios within a round. The client's own work is
//! in every figure and is most of it: how much a judgement costs is what the bench `judge` says.
//!
//! Run by `make bench`.

use serde_json::{Value, json};
use weir_tests::artifacts::{self, Form};
use weir_tests::python;
use weir_tests::weir::{Home, Weir};

const ROUNDS: usize = 5;

/// Messages of a topic: a second or so of the client's time.
const MESSAGES: usize = 20_000;

const CLASS: &str = "demo.UrgentWest";

/// One of the three.
struct Side {
    name: &'static str,
    weir: Weir,
    filtered: bool,
    publish: Vec<f64>,
    /// Of a topic all of whose messages pass.
    consume_all: Vec<f64>,
    /// Of a topic of which a quarter passes.
    consume_quarter: Vec<f64>,
}

fn side(name: &'static str, form: Option<Form>) -> Option<Side> {
    let weir = Home::new().set("plugins.poll=100ms").start();
    if let Some(form) = form {
        let artifact = artifacts::read("urgent-west", form)?;
        weir.home().drop_file(&format!("urgent-west.{}", form.ending()), &artifact);
        weir.wait_in_force(CLASS, &artifact);
    }
    let (publish, consume_all, consume_quarter) = (Vec::new(), Vec::new(), Vec::new());
    Some(Side { name, weir, filtered: form.is_some(), publish, consume_all, consume_quarter })
}

/// What the script says after its work.
fn script(weir: &Weir, what: &str, topic: &str, more: &[&str]) -> Option<Value> {
    let url = weir.service_url();
    let mut arguments = vec![what, &url, topic];
    arguments.extend_from_slice(more);
    python::start("throughput.py", &arguments)?.rest().pop()
}

fn rate(said: &Value) -> Option<f64> {
    Some(MESSAGES as f64 / said["seconds"].as_f64()?)
}

impl Side {
    /// Publishes a topic and consumes it: messages of the topic a second, for both.
    fn turn(&self, round: usize, passing: &str) -> Option<(f64, f64)> {
        let topic = format!("persistent://public/default/{passing}-{round}");
        if self.filtered {
            self.weir.bind(&topic, "bench", CLASS, &Value::Null, "withhold");
        }
        let (count, seed) = (MESSAGES.to_string(), (round + 1).to_string());
        let options = ["--count", &count, "--passing", passing, "--seed", &seed];
        let published = script(&self.weir, "publish", &topic, &options)?;
        let delivered = if self.filtered { published["passing"].clone() } else { json!(MESSAGES) };
        let consumed = script(&self.weir, "consume", &topic, &["--count", &delivered.to_string()])?;
        Some((rate(&published)?, rate(&consumed)?))
    }

    fn round(&mut self, round: usize) -> Option<()> {
        let (publish, consume) = self.turn(round, "all")?;
        self.consume_all.push(consume);
        self.publish.push(publish);
        self.consume_quarter.push(self.turn(round, "quarter")?.1);
        Some(())
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `49210  0.98x`: messages a second, and the ratio to the first side.
fn cell(own: &[f64], first: &[f64]) -> String {
    let ratio = median(own.iter().zip(first).map(|(own, first)| own / first));
    format!("{:>8.0} {ratio:>6.2}x", median(own.iter().copied()))
}

#[expect(clippy::print_stdout, reason = "a benchmark's table is what it is run for")]
fn measure() -> Option<()> {
    let mut sides = vec![
        side("none", None)?,
        side("native", Some(Form::Native))?,
        side("component", Some(Form::Component))?,
    ];
    for round in 0..ROUNDS {
        for side in &mut sides {
            side.round(round)?;
        }
    }
    println!("messages a second of the stock Python client, ratio to no filter; more is better");
    println!("{MESSAGES} messages of 1 KiB with six properties a topic, {ROUNDS} rounds, medians\n");
    println!("{:<12}{:>18}{:>22}{:>24}", "filter", "publish", "consume, all pass", "consume, a quarter");
    let first = &sides[0];
    for side in &sides {
        println!(
            "{:<12}{:>18}{:>22}{:>24}",
            side.name,
            cell(&side.publish, &first.publish),
            cell(&side.consume_all, &first.consume_all),
            cell(&side.consume_quarter, &first.consume_quarter),
        );
    }
    Some(())
}

fn main() {
    // Without guests or client, `is_there` has said so.
    let _ = measure();
}
