//! Quantities and keys with types of their own.

pub mod body_limits;
pub mod recall_id;
pub mod scope;
pub mod tokens;
pub mod usd;

/// Implements saturating arithmetic for an amount that wraps an integer.
macro_rules! saturating_arithmetic {
    ($amount:ident) => {
        impl std::ops::Add for $amount {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl std::ops::AddAssign for $amount {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::ops::Sub for $amount {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl std::ops::SubAssign for $amount {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl std::iter::Sum for $amount {
            fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
                parts.fold(Self::ZERO, |sum, part| sum + part)
            }
        }
    };
}

use saturating_arithmetic;
