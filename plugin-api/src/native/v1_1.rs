//! A second minor, for tests only: 1.0 and one function more. It shows, before there is a second minor,
//! that a host takes libraries of both and that libraries of both are taken by an older host.

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RResult, RStr, RString};

use super::v1_0::{Failure, FilterBox, Host, ListerBox};

/// [`v1_0::Root`](super::v1_0::Root) with one function more.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = RootRef)))]
#[sabi(missing_field(panic))]
pub struct Root {
    /// As in 1.0.
    pub start: extern "C" fn(host: Host),
    /// As in 1.0.
    pub describe: extern "C" fn() -> RString,
    /// As in 1.0.
    pub filter: extern "C" fn(config: RStr<'_>) -> RResult<FilterBox, Failure>,
    /// As in 1.0.
    #[sabi(last_prefix_field)]
    pub lister: extern "C" fn(config: RStr<'_>) -> RResult<ListerBox, Failure>,
    /// Who wrote the extension.
    #[sabi(missing_field(option))]
    pub authors: extern "C" fn() -> RString,
}

impl RootModule for RootRef {
    abi_stable::declare_root_module_statics! {RootRef}
    const BASE_NAME: &'static str = "weir";
    const NAME: &'static str = "weir";
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.1.0");
}
