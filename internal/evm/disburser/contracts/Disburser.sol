// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title Disburser pays many recipients in one transaction, all of them or none.
/// @notice A caller gives it an allowance of a token once, and then pays with one
/// call. It can spend the allowance of the account that calls it and of no other:
/// every transfer is out of msg.sender. It has no owner, no storage, no upgrade, no
/// way to receive ether, and no balance of any token.
/// @dev Bytes that follow the arguments have no meaning here: a payment service puts
/// the payment's id there.
contract Disburser {
    /// @notice The token did not make the transfer of an entry, so that no entry was paid.
    /// @param index of the entry, from 0
    /// @param answer of the token: what it reverted with, or returned in place of true
    error Refused(uint256 index, bytes answer);

    /// @notice There is no contract at this address, so that no call of it can pay.
    error NoToken(address token);

    /// @notice Moves tokens from the caller to each recipient, in the order of the entries.
    /// @dev A token without a return value (USDT on Ethereum) has made the transfer when it
    /// does not revert. A token that takes a fee delivers less than the entry says.
    /// @param token that the caller has given this contract an allowance of
    /// @param entries each a recipient (the upper 20 bytes) and an amount in the token's
    /// smallest unit (the lower 12 bytes)
    function pay(address token, bytes32[] calldata entries) external {
        if (token.code.length == 0) revert NoToken(token);
        for (uint256 i = 0; i < entries.length; ++i) {
            address to = address(bytes20(entries[i]));
            uint96 amount = uint96(uint256(entries[i]));
            (bool done, bytes memory answer) =
                token.call(abi.encodeCall(IERC20.transferFrom, (msg.sender, to, amount)));
            if (!done || (answer.length != 0 && bytes32(answer) != bytes32(uint256(1)))) {
                revert Refused(i, answer);
            }
        }
    }
}

interface IERC20 {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}
