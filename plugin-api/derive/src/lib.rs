//! `#[derive(Config)]`: reads a configuration and says, as a JSON Schema, what it may be.
//!
//! What it means is documented at the trait `weir_plugin_api::Config`. The schema is put together by the
//! compiler out of constants: a generator at run time would double what a component takes to compile.

mod model;
mod schema;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use model::{Field, Model, Shape};

/// Implements `Config` for a struct with named fields. `#[config(default)]` and
/// `#[config(default = 10)]` give a field a default. For an enum without values it makes a type for a
/// field: its variants are spelled in kebab case.
#[proc_macro_derive(Config, attributes(config))]
pub fn derive_config(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match Model::read(&input) {
        Ok(model) => expand(&model).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn expand(model: &Model) -> proc_macro2::TokenStream {
    let name = &model.name;
    let name_text = name.to_string();
    let schema = schema::of(model);
    // serde makes the impl for a copy of the type (`remote`), so that the author needs no second derive
    // and no dependency on serde.
    let (copy, config) = match &model.shape {
        Shape::Struct(fields) => {
            let members = fields.iter().map(member);
            let defaults = fields.iter().filter_map(default_function);
            let copy = quote! {
                #(#defaults)*

                #[derive(::weir_plugin_api::private::serde::Deserialize)]
                #[serde(crate = "::weir_plugin_api::private::serde", remote = #name_text, deny_unknown_fields)]
                struct Copy { #(#members,)* }
            };
            let config = quote! {
                impl ::weir_plugin_api::Config for #name {
                    const SCHEMA: &'static str = <Self as ::weir_plugin_api::private::Schema>::JSON;

                    fn parse(json: &str) -> ::core::result::Result<Self, ::weir_plugin_api::Error> {
                        ::core::result::Result::Ok(::weir_plugin_api::private::serde_json::from_str(json)?)
                    }
                }
            };
            (copy, config)
        }
        Shape::Enum(variants) => {
            let variants = variants.iter().map(|variant| &variant.name);
            let copy = quote! {
                #[derive(::weir_plugin_api::private::serde::Deserialize)]
                #[serde(
                    crate = "::weir_plugin_api::private::serde",
                    remote = #name_text,
                    rename_all = "kebab-case"
                )]
                enum Copy { #(#variants,)* }
            };
            (copy, quote! {})
        }
    };
    quote! {
        #[automatically_derived]
        const _: () = {
            #copy

            impl<'de> ::weir_plugin_api::private::serde::Deserialize<'de> for #name {
                fn deserialize<D: ::weir_plugin_api::private::serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<Self, D::Error> {
                    Copy::deserialize(deserializer)
                }
            }

            impl ::weir_plugin_api::private::Schema for #name {
                const JSON: &'static str = #schema;
            }

            #config
        };
    }
}

fn member(field: &Field) -> proc_macro2::TokenStream {
    let (name, ty) = (&field.name, &field.ty);
    let serde = match (&field.default, field.is_option()) {
        (Some(_), _) => {
            let function = field.default_function().to_string();
            quote! { #[serde(default = #function)] }
        }
        (None, true) => quote! { #[serde(default)] },
        (None, false) => quote! {},
    };
    quote! { #serde #name: #ty }
}

fn default_function(field: &Field) -> Option<proc_macro2::TokenStream> {
    let (name, ty) = (field.default_function(), &field.ty);
    let value = field.default.as_ref()?.value();
    Some(quote! { fn #name() -> #ty { #value } })
}
