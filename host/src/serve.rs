//! `weir serve`: open, bind, say so, serve, drain.

mod banner;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weir_broker::{Bindings, Broker, BrokerOptions, Index, Listing, Store, Workers};
use weir_extension::{ClassName, ClassOptions, Extensions, Kind, TrialRule, WatchOptions, Watcher};
use weir_wire::pulsar::FRAME_PADDING;

use crate::admin::{self, Admin};
use crate::config::{self, Config};
use crate::metrics::Metrics;
use crate::pulsar::{self, Advertised, PulsarEntries, Service};
use crate::token::Token;

/// A signal that comes so soon after the first one is no second wish: a supervisor and a shell may each pass
/// on the same one. Later ones mean "now".
const SAME_WISH: Duration = Duration::from_secs(1);

/// Everything that was opened; what a journey needs, from the disk to the doors.
struct House {
    broker: Arc<Broker>,
    extensions: Arc<Extensions>,
    listing: Arc<Listing>,
    bindings: Arc<Bindings>,
    /// Ends with the house.
    _watcher: Watcher,
}

/// Opens the house, binds its addresses, prints where they are, and serves until SIGTERM or SIGINT; then
/// ends in order, or at once if another one comes after more than a second.
///
/// # Errors
/// When something cannot be opened or bound; nothing is served then.
pub(crate) async fn run(config: Config) -> anyhow::Result<()> {
    // From here on a signal stops in good order, also while things are opened.
    let mut signals = Signals::new().context("signals cannot be waited for")?;
    std::fs::create_dir_all(&config.storage.data)
        .with_context(|| format!("data folder {} cannot be made", config.storage.data.display()))?;

    let pulsar_listener = bind("listen.pulsar", &config.listen.pulsar).await?;
    let admin_listener = bind("listen.admin", &config.listen.admin).await?;
    let pulsar_address = pulsar_listener.local_addr()?;
    let admin_address = admin_listener.local_addr()?;
    let token = Token::obtain(&config.listen, &config.storage.data, admin_address.ip().is_loopback())?;

    let opening = {
        let config = config.clone();
        // Opens on a thread that may wait, within the runtime: the broker starts tasks of its own.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let _inside = runtime.enter();
            House::open(&config)
        })
    };
    let house = opening.await.context("opening was given up")??;

    // Clients leave first, so that admin calls can be asked for as long as there is something to tell.
    let (stop_clients, stop_admin) = (CancellationToken::new(), CancellationToken::new());
    let metrics = Metrics::default();
    let advertised = Advertised::new(&config.listen.advertised, pulsar_address.port());
    let service = Arc::new(Service {
        broker: Arc::clone(&house.broker),
        listing: Arc::clone(&house.listing),
        limits: config.limits.clone(),
        advertised: advertised.clone(),
        metrics: metrics.clone(),
    });
    let admin = Arc::new(Admin {
        broker: Arc::clone(&house.broker),
        extensions: Arc::clone(&house.extensions),
        listing: Arc::clone(&house.listing),
        bindings: Arc::clone(&house.bindings),
        config: config.clone(),
        token: token.clone(),
        advertised,
        pulsar: pulsar_address,
        metrics,
        uploads: Semaphore::new(admin::MAX_UPLOADS),
        followers: Arc::new(Semaphore::new(admin::MAX_FOLLOWERS)),
        stop: stop_admin.clone(),
        ready: AtomicBool::new(false),
    });

    let clients = tokio::spawn(pulsar::serve(pulsar_listener, service, stop_clients.clone()));
    let mut calls = tokio::spawn(admin::serve(admin_listener, Arc::clone(&admin)));
    admin.ready.store(true, Ordering::Relaxed);
    banner::print(&banner::Facts {
        pulsar: pulsar_address,
        admin: admin_address,
        data: absolute(&config.storage.data),
        plugins: absolute(&config.plugins.folder),
        token: token.as_ref(),
        extensions: &house.extensions.list(),
        refused: &house.extensions.refused(),
    });

    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping"),
        ended = &mut calls => return Err(anyhow!("the admin listener ended: {ended:?}")),
    }
    let asked = Instant::now();
    admin.ready.store(false, Ordering::Relaxed);
    let drained = async {
        stop_clients.cancel();
        if let Err(error) = clients.await {
            error!(%error, "the Pulsar listener ended badly");
        }
        // By then the slowest client has been given up, so that cursors are written in any case.
        house.broker.drain().await;
        stop_admin.cancel();
        // Peers that dawdle over an admin call lose nothing by the end.
        if tokio::time::timeout(config.limits.drain_timeout / 4, calls).await.is_err() {
            info!("admin calls under way were given up");
        }
    };
    tokio::select! {
        () = tokio::time::sleep(config.limits.drain_timeout) => {
            warn!("not everything under way could be ended in time (limits.drain-timeout)");
        }
        _ended = drained => info!("stopped"),
        name = signals.next_after(asked + SAME_WISH) => {
            warn!(signal = name, "stopped at once: a second signal came");
        }
    }
    Ok(())
}

impl House {
    /// Opens everything, from the disk up. Blocks.
    fn open(config: &Config) -> anyhow::Result<Self> {
        let store = open_store(config)?;
        let extensions = open_extensions(config)?;
        let bindings = Arc::new(Bindings::new(Arc::clone(&extensions)));
        let class = config.listing.class.clone();
        let from_file = config.bindings().map_err(|reason| anyhow!(reason))?;
        let stored = Broker::stored_bindings(&store).context("the bindings cannot be read")?;
        let opened = Arc::new(AtomicBool::new(false));
        // Before the folder is looked at: a file that changed while weir was not running may hold something
        // else than what its class is bound as.
        extensions.set_usage({
            let in_use = from_file.iter().chain(&stored).flat_map(|binding| &binding.filters);
            let in_use: BTreeSet<ClassName> = in_use.map(|filter| filter.class.clone()).collect();
            let (bound, opened, class) = (Arc::downgrade(&bindings), Arc::clone(&opened), class.clone());
            move |asked| {
                if *asked == class {
                    return Some(Kind::Lister);
                }
                // Bindings come one after another while the house is opened.
                let soon = !opened.load(Ordering::Acquire) && in_use.contains(asked);
                let now = || bound.upgrade().is_some_and(|bindings| bindings.uses(asked));
                (soon || now()).then_some(Kind::Filter)
            }
        });
        // What the folder holds comes first: the listing, and bindings with a configuration, ask for it.
        let watcher = watch(config, &extensions)?;
        for (i, binding) in from_file.into_iter().enumerate() {
            bindings.put(binding, []).with_context(|| format!("bindings[{i}] of the configuration"))?;
        }
        let index = Arc::new(Index::default());
        extensions.configured(&class, Kind::Lister, config.listing.config.as_ref()).with_context(|| {
            format!("listing.class is \"{class}\", and no topic could be listed: weir does not start")
        })?;
        let listing =
            Arc::new(Listing::new(Arc::clone(&extensions), Arc::clone(&index), config.listing.clone()));
        let threads = match config.limits.judging_threads {
            0 => available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let max_message_size = config.limits.max_message_size.bytes();
        // Clients count a message or chunk without its headers: what their limit allows is an entry that is
        // larger by what a frame may have in addition. One larger still is a frame that is too large.
        let max_entry = max_message_size + FRAME_PADDING;
        let options = BrokerOptions {
            cluster: config.broker.cluster.clone(),
            auto_create_topics: config.broker.auto_create_topics,
            max_message_size: max_entry,
            max_partitions: config.broker.max_partitions,
            withhold_first_pause: config.broker.withhold_first_pause,
            withhold_longest_pause: config.broker.withhold_longest_pause,
            max_withheld: config.broker.max_withheld,
            pending_deliveries: config.limits.pending_deliveries.bytes(),
            all_deliveries: config.limits.all_deliveries.bytes(),
        };
        let decoder = Arc::new(PulsarEntries::new(max_entry));
        let workers = Arc::new(Workers::new(threads));
        let broker = Broker::open(&store, index, Arc::clone(&bindings), workers, decoder, options)
            .context("the broker cannot be opened")?;
        opened.store(true, Ordering::Release);
        Ok(Self { broker, extensions, listing, bindings, _watcher: watcher })
    }
}

fn open_store(config: &Config) -> anyhow::Result<Store> {
    let folder = config.storage.data.join("store");
    let options = weir_store::Options { max_entries_per_ledger: config.storage.max_entries_per_ledger };
    let (store, recovered) = Store::open(&folder, options).context("the store cannot be opened")?;
    for sentence in &recovered.repaired {
        warn!("{sentence}");
    }
    info!(folder = %folder.display(), topics = recovered.topics, "store opened");
    Ok(store)
}

fn open_extensions(config: &Config) -> anyhow::Result<Arc<Extensions>> {
    let limits = |extension: &config::Extension| weir_extension::Limits {
        deadline: extension.deadline,
        memory: extension.memory.bytes(),
    };
    let folder = config.storage.data.join("extensions");
    let allowed = &config.plugins.native_sha256;
    let options = weir_extension::Options {
        max_artifact_size: config.plugins.max_artifact_size.0,
        native_sha256: (!allowed.is_empty())
            .then(|| allowed.iter().map(|d| d.to_ascii_lowercase()).collect()),
        keep_versions: config.plugins.keep_versions,
        trial: TrialRule {
            messages: config.plugins.trial_messages,
            minimum: config.plugins.trial_minimum,
            broken_of_million: config.plugins.trial_broken.0,
        },
        max_native_libraries: config.plugins.max_native_libraries,
        classes: config
            .extensions
            .iter()
            .map(|(class, extension)| {
                let options = ClassOptions { limits: limits(extension), config: extension.config.clone() };
                (class.clone(), options)
            })
            .collect(),
        ..weir_extension::Options::new(folder, limits(&config::Extension::default()))
    };
    Extensions::open(options, vec![weir_listing::property_equality()])
        .context("the extensions that were registered cannot be read")
}

fn watch(config: &Config, extensions: &Arc<Extensions>) -> anyhow::Result<Watcher> {
    let folder = &config.plugins.folder;
    let started = std::fs::create_dir_all(folder).and_then(|()| {
        let options = WatchOptions { poll: config.plugins.poll, ..WatchOptions::default() };
        Watcher::start(Arc::clone(extensions), folder.clone(), options)
    });
    started.with_context(|| format!("plugins.folder {} cannot be watched", folder.display()))
}

async fn bind(key: &str, address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("{key}: {address} cannot be listened on; is another weir running? (--set {key}=HOST:PORT chooses another)")
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Sent with a write beyond `ulimit -f`. Listened to, so that the write fails and weir lives: the store
    /// knows how to wait for room.
    _file_size: Signal,
}

/// SIGXFSZ has this number on all systems that we run on.
const FILE_SIZE_SIGNAL: i32 = 25;

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE_SIGNAL))?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// The first one that comes after this time.
    async fn next_after(&mut self, time: Instant) -> &'static str {
        loop {
            let name = self.next().await;
            if Instant::now() >= time {
                return name;
            }
            info!(signal = name, "already stopping");
        }
    }
}
