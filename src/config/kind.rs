//! The form of a setting's values, declared with their type.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::base_url::BaseUrl;
use super::choices::{ChoiceSetting, SummaryModel};
use super::proxies::ProxyUrl;
use super::store_location::{CallerIdentity, StoreLocation};
use longhaul_core::cost::caps::Cap;
use longhaul_core::cost::pricing::Price;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::ThresholdSetting;
use longhaul_core::units::tokens::Tokens;

/// Form of a setting's values. A file may also hold each of them as text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number; text may add a unit.
    Integer,
    Number,
    /// One of the words that the function returns.
    Choice(fn() -> Vec<&'static str>),
    List,
    Text,
}

/// A type of setting values.
pub(crate) trait HasKind {
    const KIND: Kind;
}

/// An empty text leaves the setting open.
impl<T: HasKind> HasKind for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<C: ChoiceSetting> HasKind for C {
    const KIND: Kind = Kind::Choice(words::<C>);
}

/// Returns the words of `C`, in the order in which users read them.
pub(super) fn words<C: ChoiceSetting>() -> Vec<&'static str> {
    C::ALL.iter().map(|(word, _)| *word).collect()
}

macro_rules! kinds {
    ($($kind:ident: $($of:ty),+;)+) => {
        $($(impl HasKind for $of {
            const KIND: Kind = Kind::$kind;
        })+)+
    };
}

kinds! {
    Switch: bool;
    // An address may be a port.
    Integer: u32, u64, usize, Duration, SocketAddr, Tokens;
    Number: Price, ThresholdSetting;
    List: ClassifierRules, Vec<IpNet>, Vec<String>;
    Text: BaseUrl, CallerIdentity, Cap, PathBuf, ProxyUrl, StoreLocation, String,
        SummaryModel;
}
