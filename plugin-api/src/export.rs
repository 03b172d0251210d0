//! `export!`: an extension's entry points, in both forms.

/// Makes an extension of a type: `export!(MyFilter)` of a [`MessageFilter`](crate::MessageFilter),
/// `export!(lister MyLister)` of a [`TopicLister`](crate::TopicLister). Once in a crate, which must be a
/// `cdylib`.
#[macro_export]
macro_rules! export {
    (lister $type:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::component as weir;

            static LISTER: weir::Lister<$type> = weir::Lister::new();

            $crate::__component_type!("component-type:weir:extension@1.0.0:lister-guest", weir::LISTER_GUEST);

            #[unsafe(export_name = "weir:extension/meta@1.0.0#describe")]
            extern "C" fn describe() -> *const u32 {
                weir::describe_lister::<$type>(env!("CARGO_PKG_VERSION"), "1.0")
            }
            #[unsafe(export_name = "weir:extension/meta@1.0.0#configure")]
            unsafe extern "C" fn configure(config: *const u8, len: usize) -> *const u32 {
                // SAFETY: called by the host, which passes a string.
                unsafe { LISTER.configure(weir::v1_0::IMPORTS, config, len) }
            }
            #[unsafe(export_name = "weir:extension/lister@1.0.0#answer")]
            unsafe extern "C" fn answer(request: *const u8, len: usize) -> *const u32 {
                // SAFETY: called by the host, which passes a string.
                unsafe { LISTER.answer(request, len) }
            }
        };

        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            use $crate::native as weir;

            extern "C" fn describe() -> $crate::private::abi_stable::std_types::RString {
                weir::describe_lister::<$type>(env!("CARGO_PKG_VERSION"), "1.0")
            }
            $crate::__native_root!(
                v1_0,
                weir::v1_0::Root {
                    start: weir::start,
                    describe,
                    filter: weir::no_filter,
                    lister: weir::lister::<$type>,
                }
            );
        };
    };

    (next_minor $type:ty) => {
        $crate::__filter_component!(
            $type,
            "1.1",
            "component-type:weir:extension@1.1.0:filter-guest",
            NEXT_FILTER_GUEST,
            v1_1,
            "weir:extension/meta@1.1.0#describe",
            "weir:extension/meta@1.1.0#configure",
            "weir:extension/filter@1.1.0#judge"
        );

        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            use $crate::native as weir;

            extern "C" fn describe() -> $crate::private::abi_stable::std_types::RString {
                weir::describe_filter::<$type>(env!("CARGO_PKG_VERSION"), "1.1")
            }
            extern "C" fn authors() -> $crate::private::abi_stable::std_types::RString {
                env!("CARGO_PKG_AUTHORS").into()
            }
            $crate::__native_root!(
                v1_1,
                weir::v1_1::Root {
                    start: weir::start,
                    describe,
                    filter: weir::filter::<$type>,
                    lister: weir::no_lister,
                    authors,
                }
            );
        };
    };

    ($type:ty) => {
        $crate::__filter_component!(
            $type,
            "1.0",
            "component-type:weir:extension@1.0.0:filter-guest",
            FILTER_GUEST,
            v1_0,
            "weir:extension/meta@1.0.0#describe",
            "weir:extension/meta@1.0.0#configure",
            "weir:extension/filter@1.0.0#judge"
        );

        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            use $crate::native as weir;

            extern "C" fn describe() -> $crate::private::abi_stable::std_types::RString {
                weir::describe_filter::<$type>(env!("CARGO_PKG_VERSION"), "1.0")
            }
            $crate::__native_root!(
                v1_0,
                weir::v1_0::Root {
                    start: weir::start,
                    describe,
                    filter: weir::filter::<$type>,
                    lister: weir::no_lister,
                }
            );
        };
    };
}

/// A filter component's exports, of one minor.
#[doc(hidden)]
#[macro_export]
macro_rules! __filter_component {
    (
        $type:ty, $contract:literal, $section:literal, $world:ident, $minor:ident,
        $describe:literal, $configure:literal, $judge:literal
    ) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::component as weir;

            static FILTER: weir::Filter<$type> = weir::Filter::new();

            $crate::__component_type!($section, weir::$world);

            #[unsafe(export_name = $describe)]
            extern "C" fn describe() -> *const u32 {
                weir::describe_filter::<$type>(env!("CARGO_PKG_VERSION"), $contract)
            }
            #[unsafe(export_name = $configure)]
            unsafe extern "C" fn configure(config: *const u8, len: usize) -> *const u32 {
                // SAFETY: called by the host, which passes a string.
                unsafe { FILTER.configure(weir::$minor::IMPORTS, config, len) }
            }
            #[unsafe(export_name = $judge)]
            unsafe extern "C" fn judge(batch: *const u8, len: usize) -> *const u32 {
                // SAFETY: called by the host, which passes a batch.
                unsafe { FILTER.judge(batch, len) }
            }
        };
    };
}

/// The custom section from which the linker knows which component to make. It lies in the author's crate,
/// or the linker would leave it out with the object file that nothing else is taken from.
#[doc(hidden)]
#[macro_export]
macro_rules! __component_type {
    ($section:literal, $world:expr) => {
        #[used]
        #[unsafe(link_section = $section)]
        static COMPONENT_TYPE: [u8; $world.len()] = {
            let mut bytes = [0; $world.len()];
            let mut i = 0;
            while i < bytes.len() {
                bytes[i] = $world[i];
                i += 1;
            }
            bytes
        };
    };
}

/// A native library's root module, and the static by which the host finds it. What
/// `#[export_root_module]` writes, without the author's crate depending on `abi_stable`.
#[doc(hidden)]
#[macro_export]
macro_rules! __native_root {
    ($minor:ident, $root:expr) => {
        #[cfg(panic = "abort")]
        compile_error!("a native extension must unwind: build it with panic = \"unwind\"");

        use $crate::private::abi_stable::library::{
            __call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult,
        };
        use $crate::private::abi_stable::prefix_type::PrefixTypeTrait as _;

        fn root() -> weir::$minor::RootRef {
            weir::constructed();
            $root.leak_into_prefix()
        }
        extern "C" fn erased_root() -> RootModuleResult {
            __call_root_module_loader(root)
        }
        // SAFETY: the constructor gives the module of the type that the header names.
        #[unsafe(no_mangle)]
        static _1as_0lib_1header_0root_bmodule_bloader: LibHeader = unsafe {
            LibHeader::from_constructor::<weir::$minor::RootRef>(erased_root, CheckTypeLayout::Yes)
        };
    };
}
