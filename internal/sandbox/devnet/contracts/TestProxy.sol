// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// TestProxy stands before a token as USDC's proxy does: each call reads the admin, who
/// may not use the token, and the implementation, and delegates to it.
contract TestProxy {
    // keccak256("org.zeppelinos.proxy.admin") and ("org.zeppelinos.proxy.implementation"), as in FiatTokenProxy
    bytes32 private constant ADMIN = 0x10d6a54a4754c8869d6886b5f5d7fbfa5b4522237ea5c60d11bc4e7a1ff9390b;
    bytes32 private constant IMPLEMENTATION = 0x7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3;

    constructor(address implementation) {
        assembly {
            sstore(ADMIN, 1)
            sstore(IMPLEMENTATION, implementation)
        }
    }

    fallback() external {
        assembly {
            if eq(caller(), sload(ADMIN)) { revert(0, 0) }
            calldatacopy(0, 0, calldatasize())
            let done := delegatecall(gas(), sload(IMPLEMENTATION), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(done) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }
}
