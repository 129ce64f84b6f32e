// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// TrialToken does to each recipient what the first byte of its address says, as the
/// tokens do that a payer may meet. Everybody may mint.
contract TrialToken {
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function approve(address spender, uint256 value) external {
        allowance[msg.sender][spender] = value;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint8 kind = uint8(bytes1(bytes20(to)));
        if (kind == 1) revert("refused");
        if (kind == 2) assembly { revert(0, 0) }
        if (kind == 3) assembly { invalid() }
        if (kind == 4) return false;
        if (kind == 5) assembly { mstore(0, 2) return(0, 32) }
        if (kind == 6) assembly { mstore(0, not(0)) return(0, 1) }
        if (kind == 7 && from != address(this)) reenter(from, to, value);
        allowance[from][msg.sender] -= value;
        balanceOf[from] -= value;
        uint256 arrives = kind == 8 && value > 0 ? value - 1 : value; // a fee
        balanceOf[to] += arrives;
        emit Transfer(from, to, arrives);
        if (kind == 9) assembly { return(0, 0) } // as USDT on Ethereum
        if (kind == 10) assembly { mstore(0, 1) return(0, 64) }
        return true;
    }

    /// Calls the contract that calls, as a recipient's hook could.
    function reenter(address from, address to, uint256 value) private {
        bytes32[] memory entries = new bytes32[](1);
        entries[0] = bytes32(bytes20(to)) | bytes32(value);
        allowance[from][address(this)] = value;
        (bool done,) = msg.sender.call(abi.encodeWithSignature("pay(address,bytes32[])", address(this), entries));
        require(!done || value == 0, "a stranger was paid out of the caller's allowance");
        allowance[from][address(this)] = 0;
    }
}
