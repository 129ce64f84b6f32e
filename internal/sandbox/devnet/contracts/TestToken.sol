// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// TestToken behaves like USDC where a payment service can tell the difference:
/// six decimals, an owner who mints, a blacklist that shares a word with the balance
/// (FiatTokenV2_2), so that a transfer costs as much gas, and USDC's own revert texts.
/// It is worth nothing, and its owner's key is published.
///
/// The owner may also give a recipient a behaviour, so that tests and the
/// sandbox can show the end of a payment when a token misbehaves.
contract TestToken {
    /// What a transfer to a recipient does instead of an ordinary transfer.
    enum Behaviour {
        Ordinary, // moves the amount, logs it, returns true
        RevertWhenMined, // reverts only at a gas price, so that estimation passes
        ReturnFalse // moves nothing, logs nothing, returns false
    }

    string public constant name = "USD Coin";
    string public constant symbol = "USDC";
    uint8 public constant decimals = 6;

    address public immutable owner;
    uint256 public totalSupply;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => Account) private accounts;

    struct Account {
        uint240 balance;
        bool blacklisted;
        Behaviour behaviour;
    }

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Blacklisted(address indexed account);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    modifier notBlacklisted(address account) {
        require(!accounts[account].blacklisted, "Blacklistable: account is blacklisted");
        _;
    }

    constructor() {
        owner = msg.sender;
    }

    // ERC-20

    function balanceOf(address account) external view returns (uint256) {
        return accounts[account].balance;
    }

    function transfer(address to, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(to)
        returns (bool)
    {
        return _transfer(msg.sender, to, value);
    }

    function approve(address spender, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(spender)
        returns (bool)
    {
        return _approve(msg.sender, spender, value);
    }

    function transferFrom(address from, address to, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(from)
        notBlacklisted(to)
        returns (bool)
    {
        require(value <= allowance[from][msg.sender], "ERC20: transfer amount exceeds allowance");
        allowance[from][msg.sender] -= value;
        return _transfer(from, to, value);
    }

    // For the owner

    function mint(address to, uint256 value) external onlyOwner {
        require(to != address(0), "FiatToken: mint to the zero address");
        require(value <= type(uint240).max, "TestToken: more than fits");
        totalSupply += value;
        accounts[to].balance += uint240(value);
        emit Transfer(address(0), to, value);
    }

    function blacklist(address account) external onlyOwner {
        accounts[account].blacklisted = true;
        emit Blacklisted(account);
    }

    /// An account's approval without a transaction of it: its nonces stay unused.
    function approveFor(address account, address spender, uint256 value) external onlyOwner {
        _approve(account, spender, value);
    }

    function setBehaviour(address recipient, Behaviour behaviour) external onlyOwner {
        accounts[recipient].behaviour = behaviour;
    }

    function _approve(address account, address spender, uint256 value) private returns (bool) {
        allowance[account][spender] = value;
        emit Approval(account, spender, value);
        return true;
    }

    // Every transfer ends here.
    function _transfer(address from, address to, uint256 value) private returns (bool) {
        require(from != address(0), "ERC20: transfer from the zero address");
        require(to != address(0), "ERC20: transfer to the zero address");
        require(value <= accounts[from].balance, "ERC20: transfer amount exceeds balance");
        Behaviour behaviour = accounts[to].behaviour;
        // eth_call and eth_estimateGas run at a gas price of zero when the caller names none.
        require(behaviour != Behaviour.RevertWhenMined || tx.gasprice == 0, "TestToken: reverts when mined");
        if (behaviour == Behaviour.ReturnFalse) return false;
        accounts[from].balance -= uint240(value);
        accounts[to].balance += uint240(value);
        emit Transfer(from, to, value);
        return true;
    }
}
